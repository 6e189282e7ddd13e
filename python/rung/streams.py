# SPDX-License-Identifier: Apache-2.0
"""CUDA streams: their handles as the library and DLPack have them, and torch's memory on them.

torch's default stream has handle 0. The library gets cudaStreamLegacy for it, as DLPack does.
Without torch this is the stream of every gather.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Optional

from ._library import BYTES_MAX
from .errors import InvalidError
from .sizes import whole_number

if TYPE_CHECKING:
    from .store import Store

LEGACY = 1   # cudaStreamLegacy: the default stream, also by this name where 0 is ambiguous


class Stream:
    """A CUDA stream: `handle` for the library and DLPack, never 0; `torch`: torch's, or None."""

    __slots__ = ("handle", "torch")

    def __init__(self, handle: int, torch: Any):
        self.handle, self.torch = handle or LEGACY, torch

    def allocating(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """`function(*arguments)`, whose new tensors belong to this stream.

        torch gives freed memory out again in the order of the stream that it was allocated on:
        work on another stream would write to it while that order still has readers.
        """
        if self.torch is None:
            return function(*arguments)
        cuda = sys.modules["torch"].cuda
        here, there = cuda.current_stream(), cuda.current_stream(self.torch.device)
        try:
            with cuda.stream(self.torch):
                return function(*arguments)
        except BaseException:   # of a signal, perhaps inside torch's own switching
            cuda.set_stream(there)
            cuda.set_stream(here)
            raise

    def uses(self, tensor: Any) -> None:
        """Keep the memory of a torch tensor that is freed until the work on this stream has run."""
        if self.torch is not None and getattr(tensor, "is_cuda", False):
            tensor.record_stream(self.torch)


def _torch() -> Any:
    """torch where it uses CUDA by now; else none of its streams has work."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_initialized() else None


def stream_of(store: Store, stream: Any = None) -> Stream:
    """A stream of the store's GPU.

    Args:
        stream: torch's, or a handle as in CUDA; None: torch's current one, without torch the
            default stream
    """
    torch = _torch()
    if stream is None:
        current = None if torch is None else torch.cuda.current_stream(store.gpu)
        return Stream(0 if current is None else current.cuda_stream, current)
    if hasattr(stream, "cuda_stream"):
        if stream.device.index != store.gpu:
            raise InvalidError(f"stream of {stream.device}: the store gathers on {store.device}; "
                               "give a stream of that GPU")
        return Stream(stream.cuda_stream, stream)
    handle = whole_number(stream, "stream", BYTES_MAX) or LEGACY
    if torch is None:
        return Stream(handle, None)
    if handle == LEGACY:
        return Stream(handle, torch.cuda.default_stream(store.gpu))
    return Stream(handle, torch.cuda.ExternalStream(handle, device=store.gpu))


def current_stream(store: Store, stream: Optional[Any] = None) -> int:
    """The handle of `stream_of()`, for the library."""
    return stream_of(store, stream).handle
