# SPDX-License-Identifier: Apache-2.0
"""Sampled vertices with the edges between them (`Sample`), and with their rows (`Batch`).

The classes have a type parameter for their arrays, `torch.Tensor` (default) or numpy's, which only
type checkers use.

Copies to a device return before they complete only if they come from pinned memory (mover()),
because the loader reuses the memory of a batch as soon as no array refers to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import c_void_p, cast
from typing import TYPE_CHECKING, Any, Generic

import numpy as np

from ..arrays import CPU, Array
from ..dataset import LazyArray
from ..dtypes import BY_NAME, tensor_of
from ..errors import InvalidError, NotFoundError

if TYPE_CHECKING:
    import torch
    from typing_extensions import TypeVar

    ArrayT = TypeVar("ArrayT", default=torch.Tensor)
else:
    from typing import TypeVar

    ArrayT = TypeVar("ArrayT")

_I64, _I32 = BY_NAME["i64"], BY_NAME["i32"]


class Block(Generic[ArrayT]):
    """Edges drawn at one hop.

    Destination i is vertex i of the batch. Its sources are `indices[indptr[i]:indptr[i + 1]]`.

    Attributes:
        dst_count: number of destinations, the vertices before the hop
        src_count: number of sources, the vertices after the hop; destinations come first
        edge_count: edges of the hop
        indptr: int64 [dst_count + 1]
        indices: int32 [edge_count], positions in the batch's vertices
    """

    __slots__ = ("dst_count", "src_count", "edge_count", "indptr", "indices")

    def __init__(self, dst_count: int, src_count: int, indptr: ArrayT, indices: ArrayT):
        arrays: tuple[Any, Any] = indptr, indices
        self.dst_count: int = dst_count
        self.src_count: int = src_count
        self.edge_count: int = len(arrays[1])
        self.indptr: ArrayT = indptr
        self.indices: ArrayT = indices

    def to(self, device: Any, non_blocking: bool = False) -> Block[ArrayT]:
        """Return the block with its arrays on a torch device; arguments as in `Batch.to()`."""
        return self.moved(mover(self.indptr, device, non_blocking))

    def moved(self, move: Callable[[Any], Any]) -> Block[ArrayT]:
        """Return the block with each array replaced by `move(array)`."""
        return Block(self.dst_count, self.src_count, move(self.indptr), move(self.indices))

    def edge_index(self) -> ArrayT:
        """Return the edges as int64 [2, edge_count] in PyG's form: row 0 has the sources."""
        indptr: Any = self.indptr
        indices: Any = self.indices
        found: Any
        if isinstance(indptr, np.ndarray):
            repeated = np.repeat(np.arange(self.dst_count), np.diff(indptr))
            found = np.stack([indices.astype(np.int64), repeated])
        else:
            import torch

            targets = torch.arange(self.dst_count, device=indptr.device)
            targets = targets.repeat_interleave(indptr.diff(), output_size=self.edge_count)
            found = torch.stack([indices.long(), targets])
        return found   # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"rung.Block({self.src_count} -> {self.dst_count} vertices, {self.edge_count} edges)"


def block_of(block: Any, owner: Any, kind: str, device: tuple[int, int] = (CPU, 0)) -> Block[Any]:
    """Return a block of the library without a copy.

    Args:
        block: struct of the library
        owner: object that keeps its memory; the block's arrays refer to it
        kind: "numpy" or "torch"
        device: DLPack device (type, number) of the memory

    Raises:
        InvalidError: the batch has more vertices than int32 can count.
    """
    if block.src_count >= 2**31:
        raise InvalidError(f"batch of {block.src_count} vertices: more than 2^31 - 1; "
                           "use smaller batches or fanouts")
    indptr = Array(block.indptr or 0, (block.dst_count + 1,), _I64, owner, device)
    data = cast(block.indices, c_void_p).value or 0
    indices = Array(data, (block.edge_count,), _I32, owner, device)
    return Block(block.dst_count, block.src_count, as_kind(indptr, kind), as_kind(indices, kind))


def mover(example: Any, device: Any, non_blocking: bool) -> Callable[[Any], Any]:
    """Return a function that moves tensors like `example` to a torch device.

    Copies from memory that is not pinned block: the loader reuses its memory as soon as the batch
    is gone, which could be before an asynchronous copy has read it.

    Raises:
        InvalidError: `example` is a numpy array.
    """
    if isinstance(example, np.ndarray):
        raise InvalidError("to(): numpy arrays cannot be moved; use arrays='torch' in "
                           "rung.Loader(), or kind='torch' in sample()")
    import torch

    where = torch.device(device)

    def move(given: torch.Tensor) -> torch.Tensor:
        return given.to(where, non_blocking=non_blocking and given.is_pinned())

    return move


def as_kind(array: Array, kind: str) -> Any:
    """Return an array as a torch tensor or, if `kind` is "numpy", as a numpy array; no copy."""
    found: Any = array
    return found.torch() if kind == "torch" else found.numpy()


def edges_of(blocks: Sequence[Block[ArrayT]], like: ArrayT) -> ArrayT:
    """Return the edges of all hops as int64 [2, edges], hop 0 first.

    With draws "new" this is the subgraph that PyG's loaders return.

    Args:
        like: array of the batch, whose type and device the result has if there are no blocks
    """
    parts: list[Any] = [block.edge_index() for block in blocks]
    found: Any
    if isinstance(like, np.ndarray):
        found = np.concatenate(parts, 1) if parts else np.empty((2, 0), np.int64)
    else:
        import torch

        tensor: Any = like
        found = (torch.cat(parts, 1) if parts
                 else torch.empty((2, 0), dtype=torch.int64, device=tensor.device))
    return found   # type: ignore[no-any-return]


def rows_of(arrays: Mapping[str, Any], name: str, ranks: Any) -> Any:
    """Return the rows of an array of the data set, on the device of the ranks.

    Args:
        arrays: by name: a `LazyArray` of all vertices, or the rows of the batch

    Raises:
        NotFoundError: there is no such array.
    """
    if name not in arrays:
        raise NotFoundError(f"name={name!r}: unknown array; use one of "
                            f"{', '.join(arrays) or 'those that were staged with arrays='}")
    found = arrays[name]
    if not isinstance(found, LazyArray):
        return found
    if isinstance(ranks, np.ndarray):
        return found.get()[ranks]
    return tensor_of(found.get()[ranks.numpy(force=True)], name).to(ranks.device)


class WithVertices(Generic[ArrayT]):
    """Ranks with their original vertices, which are given or looked up at first use."""

    __slots__ = ("ranks", "_vertices")

    def __init__(self, ranks: ArrayT, vertices: ArrayT | LazyArray | None):
        self.ranks: ArrayT = ranks
        self._vertices = vertices

    @property
    def vertices(self) -> ArrayT:
        """Original vertices, int64 [vertices], seeds first.

        The first use loads a map of the data set, which needs 4 or 8 bytes per vertex.
        """
        found: Any = self._vertices
        if isinstance(found, LazyArray):
            ranks: Any = self.ranks
            arrays = isinstance(ranks, np.ndarray)
            found = found.get()[ranks if arrays else ranks.numpy(force=True)].astype(np.int64)
            if not arrays:
                import torch

                found = torch.from_numpy(found).to(ranks.device)
            self._vertices = found
        return found   # type: ignore[no-any-return]


class Sample(WithVertices[ArrayT]):
    """A sampled batch, whose arrays own their memory.

    Attributes:
        vertices: int64 [vertices], original vertices, seeds first
        ranks: int64 [vertices], the same vertices by their rank in the relabelled graph
        blocks: `rung.Block`s, hop 0 (of the seeds) first
        seed_count: number of seeds
    """

    __slots__ = ("blocks", "seed_count")

    def __init__(self, ranks: ArrayT, blocks: list[Block[ArrayT]], seed_count: int,
                 vertices: ArrayT | LazyArray | None = None):
        super().__init__(ranks, vertices)
        self.blocks: list[Block[ArrayT]] = blocks
        self.seed_count: int = seed_count

    def __repr__(self) -> str:
        ranks: Any = self.ranks
        edges = sum(block.edge_count for block in self.blocks)
        return f"rung.Sample({self.seed_count} seeds, {len(ranks)} vertices, {edges} edges)"

    def __reduce__(self) -> tuple[Any, ...]:
        return Sample, (self.ranks, self.blocks, self.seed_count, self.vertices)


class Batch(WithVertices[ArrayT]):
    """A batch: its vertices, seeds first, their feature rows, and the edges between them.

    The arrays show the loader's memory without a copy. The loader reuses it when the batch and all
    its arrays are gone.

    A batch on a GPU is for the CUDA stream that was torch's current one at delivery. Its memory is
    reused after the work that is queued on that stream when the batch is deleted. If another stream
    uses the batch, call `first.wait_stream(other)` before deleting it.

    `seeds` and `labels` are on the host, `features` on the store's device. The others are on the
    host, or on the GPU if the loader samples there.

    Attributes:
        idx: number of the batch in its epoch, from 0
        seeds: int64 [seeds], original vertices
        labels: [seeds, ...], labels of the seeds, or None
        vertices: int64 [vertices], original vertices, seeds first
        ranks: int64 [vertices], the same vertices by their rank in the relabelled graph
        features: [vertices, ...], rows of the vertices, in the dtype of the data set
        blocks: `rung.Block`s in the order of a model's layers: the last hop first
    """

    __slots__ = ("idx", "seeds", "labels", "features", "blocks", "_arrays")

    def __init__(self, idx: int, seeds: ArrayT, labels: ArrayT | Any, ranks: ArrayT,
                 features: ArrayT, blocks: list[Block[ArrayT]],
                 vertices: ArrayT | LazyArray | None = None,
                 arrays: Mapping[str, ArrayT | LazyArray] | None = None):
        super().__init__(ranks, vertices)
        self._arrays = arrays or {}
        self.idx: int = idx
        self.seeds: ArrayT = seeds
        # None without labels. The type does not say so, because most programs know that their data
        # set has labels, and would have to test for None.
        self.labels: ArrayT | Any = labels
        self.features: ArrayT = features
        self.blocks: list[Block[ArrayT]] = blocks

    def edge_index(self) -> ArrayT:
        """Return the edges of all hops, int64 [2, edges], hop 0 first; row 0 has the sources."""
        return edges_of(self.blocks[::-1], self.ranks)

    def array(self, name: str) -> ArrayT:
        """Return the rows of an array that was staged with `arrays`, [vertices, ...].

        The first use loads the array of all vertices.

        Raises:
            NotFoundError: there is no such array, or the loader leaves it out.
        """
        return rows_of(self._arrays, name, self.ranks)   # type: ignore[no-any-return]

    def to(self, device: Any, non_blocking: bool = False) -> Batch[ArrayT]:
        """Return the batch on a torch device. Tensors that are there already are not copied.

        Args:
            device: a torch device or its name
            non_blocking: do not wait for copies from pinned memory (`pin_memory()`)

        Raises:
            InvalidError: the batch has numpy arrays.
        """
        return self._moved(mover(self.ranks, device, non_blocking))

    def pin_memory(self) -> Batch[ArrayT]:
        """Return the batch with its host tensors copied to pinned memory.

        torch's DataLoader calls this for its option `pin_memory`.

        Raises:
            InvalidError: the batch has numpy arrays.
        """
        mover(self.ranks, "cpu", False)   # raises for numpy arrays
        return self._moved(lambda given: given.pin_memory() if given.is_cpu else given)

    def _moved(self, move: Callable[[Any], Any]) -> Batch[ArrayT]:
        vertices: Any = self._vertices

        def move_given(array: Any) -> Any:
            return array if array is None else move(array)

        return Batch(self.idx, move_given(self.seeds), move_given(self.labels), move(self.ranks),
                     move(self.features), [block.moved(move) for block in self.blocks],
                     move(vertices) if hasattr(vertices, "device") else vertices,
                     {name: array if isinstance(array, LazyArray) else move(array)
                      for name, array in self._arrays.items()})

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (self.idx, self.seeds, self.labels, self.ranks, self.features, self.blocks,
                       self.vertices, {name: self.array(name) for name in self._arrays})

    def __repr__(self) -> str:
        seeds: Any = self.seeds
        ranks: Any = self.ranks
        return (f"rung.Batch({self.idx}: {len(seeds)} seeds, {len(ranks)} vertices, "
                f"{sum(block.edge_count for block in self.blocks)} edges)")
