# SPDX-License-Identifier: Apache-2.0
"""CUDA streams: handles for the library and DLPack, and torch's use of memory on streams.

torch's default stream has handle 0, which the library and DLPack do not accept. Both get
cudaStreamLegacy (1), another name of the same stream. Without torch, gathers use it by default.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._library import BYTES_MAX
from .errors import InvalidError
from .sizes import whole_number

if TYPE_CHECKING:
    from .store import Store

LEGACY = 1   # cudaStreamLegacy: the default stream; 0 could also be the per-thread default stream


class Stream:
    """A CUDA stream.

    Attributes:
        handle: for the library and DLPack, never 0
        torch: torch's stream object, or None
    """

    __slots__ = ("handle", "torch")

    def __init__(self, handle: int, torch: Any) -> None:
        self.handle: int = handle or LEGACY
        self.torch: Any = torch

    def allocating(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return `function(*arguments)`, with new tensors allocated on this stream.

        torch reuses freed memory in the order of the stream on which it was allocated. Rows that
        were allocated on another stream could get memory that earlier work on that stream still
        reads, and the gather on this stream would overwrite it.
        """
        if self.torch is None:
            return function(*arguments)
        cuda = sys.modules["torch"].cuda
        here, there = cuda.current_stream(), cuda.current_stream(self.torch.device)
        try:
            with cuda.stream(self.torch):
                return function(*arguments)
        # From a signal handler, perhaps while torch's context manager switches streams. Both are
        # restored: the current device's stream and that of the gather's device.
        except BaseException:
            cuda.set_stream(there)
            cuda.set_stream(here)
            raise

    def uses(self, tensor: Any) -> None:
        """Make torch reuse a tensor's memory only after the work queued on this stream has run."""
        if self.torch is not None and getattr(tensor, "is_cuda", False):
            tensor.record_stream(self.torch)


def _torch() -> Any:
    """Return torch if it has initialised CUDA, otherwise None: its streams have no work then."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_initialized() else None


def stream_of(store: Store, stream: Any = None) -> Stream:
    """Return a stream of the store's GPU.

    Args:
        stream: torch stream, or handle as in CUDA; None: torch's current stream, or without torch
            the default stream

    Raises:
        InvalidError: a stream of another GPU, or not a handle.
    """
    torch = _torch()
    if stream is None:
        current = None if torch is None else torch.cuda.current_stream(store.gpu)
        return Stream(0 if current is None else current.cuda_stream, current)
    if hasattr(stream, "cuda_stream"):
        if stream.device.index != store.gpu:
            raise InvalidError(f"stream of {stream.device}: the store gathers on {store.device}; "
                               "use a stream of that GPU")
        return Stream(stream.cuda_stream, stream)
    handle = whole_number(stream, "stream", BYTES_MAX) or LEGACY
    if torch is None:
        return Stream(handle, None)
    if handle == LEGACY:
        return Stream(handle, torch.cuda.default_stream(store.gpu))
    return Stream(handle, torch.cuda.ExternalStream(handle, device=store.gpu))


def current_stream(store: Store, stream: Any | None = None) -> int:
    """Return the handle of `stream_of()` for the library."""
    return stream_of(store, stream).handle
