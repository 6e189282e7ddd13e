# SPDX-License-Identifier: Apache-2.0
"""rung.stage(): write a graph and its features to a folder, with the rows in rank order."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Optional, Union

import numpy as np

from ._library import DRAWS, STAGE_PADS, ROW_ORDERS, c, check, lib, string, text
from .errors import BusyError, ExistsError, InvalidError
from .owned import Folder, Owned, remove_folder
from .sizes import Size, choice, fanout_array, size_bytes, whole_number

Source = Union[str, os.PathLike, np.ndarray, Any]
Progress = Callable[[str, int, int], None]


@dataclass
class StageResult:
    """Result of staging; with `dry_run`, an estimate.

    Attributes:
        path: absolute path of the data set
        vertex_count, edge_count: ints
        row_bytes, feature_bytes: size of a row and of all rows
        bytes_written: size of all files
        memory_bytes: most memory used at the same time
        seconds: duration
        row_order: how the rows were put in order: "passes", "partition" or "gather"
        in_place: whether the features remain in their file
        resumed: whether an interrupted run was continued
        phases: seconds by name of the step
        already_staged: `resume` found that this job has finished `path` already, and wrote
            nothing; `row_order` is then "auto"
    """

    path: str
    vertex_count: int
    edge_count: int
    row_bytes: int
    feature_bytes: int
    bytes_written: int
    memory_bytes: int
    seconds: float
    row_order: str
    in_place: bool
    resumed: bool
    phases: dict[str, float] = field(default_factory=dict)
    already_staged: bool = False


class _Progress:
    """Progress callback of the library, which calls the user's function.

    An exception in the user's function cancels staging, and is raised again when the library has
    returned. The same applies to an exception in a signal handler, for example after Ctrl-C.
    Python runs handlers when it next executes bytecode, which is at the start of this callback:
    ctypes would print and discard the exception before any `try` here could catch it. Inside
    `with`, the handlers are therefore replaced by a method with its own `try` block.

    Args:
        wanted: True: show progress with tqdm; a function of (step, done, total); or None
    """

    def __init__(self, wanted: Union[bool, Progress, None]):
        self.error: Optional[BaseException] = None
        self._bar: Any = None
        self._stage = ""
        self._call: Optional[Progress] = None
        self._handlers: dict[int, Any] = {}
        if wanted is True:
            self._call = self._show
        elif wanted:
            self._call = wanted
        # Also without a user's function, because signal handlers run in its calls. ctypes does not
        # keep the callback alive: this attribute does.
        self.function = c.rung_progress_fn(self._tell)

    def __enter__(self) -> _Progress:
        try:
            # Python runs signal handlers on the main thread only, and only that may set them.
            if threading.current_thread() is threading.main_thread():
                for number in signal.valid_signals():
                    handler = signal.getsignal(number)
                    if callable(handler):
                        self._handlers[number] = handler
                        signal.signal(number, self._signal)
            return self
        except BaseException:   # from a handler that has not been replaced yet
            self._restore()
            raise

    def __exit__(self, *_) -> None:
        self._restore()
        if self._bar is not None:
            self._bar.close()

    def _restore(self) -> None:
        try:
            for number in list(self._handlers):
                signal.signal(number, self._handlers[number])
                del self._handlers[number]
        except BaseException:   # from a handler that has been restored already
            self._restore()
            raise

    def _signal(self, number: int, frame: Any) -> None:
        """Run the replaced handler, and store its exception for the end of the call."""
        try:
            handler = self._handlers.get(number)
            if handler is not None:   # None: it was restored after this call had begun
                handler(number, frame)
        except BaseException as error:   # pylint: disable=broad-exception-caught
            self.error = error

    def _tell(self, _ctx, stage, done, total) -> int:
        """Callback of the library. Returns 1 to cancel."""
        try:
            if self._call and self.error is None:
                self._call(text(stage), done, total)
        # an exception cannot propagate through C
        except BaseException as error:   # pylint: disable=broad-exception-caught
            self.error = error
        return 0 if self.error is None else 1

    def _show(self, stage: str, done: int, total: int) -> None:
        from tqdm import tqdm

        if stage != self._stage:
            if self._bar is not None:
                self._bar.close()
            self._stage, self._bar = stage, tqdm(total=total or None, desc=stage, unit_scale=True,
                                                 file=sys.stderr)
        self._bar.update(done - self._bar.n)


class _Sources:
    """Converts the caller's sources to specs of the library.

    Arrays in memory are written to files first, in a temporary folder next to `out`, because that
    disk must have room for the data set anyway.
    """

    def __init__(self, out: str):
        self._parent = os.path.dirname(os.path.abspath(out))
        self._count = 0
        self.folder: Optional[Folder] = None   # for the first array

    def spec(self, source: Source, name: str) -> bytes:
        """Return a source's spec. Raises InvalidError for an unsupported type."""
        if isinstance(source, (str, os.PathLike)):
            return string(source, name)
        if hasattr(source, "detach"):   # torch
            source = source.detach().cpu()
            if str(source.dtype) == "torch.bfloat16":   # numpy has no bf16: two bytes of void
                import torch

                source = source.contiguous().view(torch.int16).numpy().view("V2")
            else:
                source = source.numpy()
        array = np.ascontiguousarray(source)
        if array.dtype.hasobject or np.ndim(source) == 0:
            raise InvalidError(f"{name}: unsupported type {type(source).__name__}; use a path, "
                               "'file.npz:member', 'raw:...', or an array")
        if self.folder is None:
            self.folder = Folder.create(".rung-", self._parent)
        self._count += 1
        path = os.path.join(self.folder.path, f"{self._count}.npy")
        np.save(path, array.astype(array.dtype.newbyteorder("<"), copy=False), allow_pickle=False)
        return os.fsencode(path)

    def remove(self) -> None:
        if self.folder is not None:
            self.folder.remove()


def _named(sources: _Sources, given: Optional[Mapping[str, Source]], what: str, struct: Any):
    """Return a ctypes array of (name, spec) structs, or None, and its length."""
    entries = [struct(string(name, what), sources.spec(source, f"{what} {name}"))
               for name, source in (given or {}).items()]
    return (struct * len(entries))(*entries) if entries else None, len(entries)


def _texts(given: Sequence[bytes]):
    return (c_char_p * len(given))(*given), len(given)


def _throw_away(half_done: str) -> None:
    """Remove a half-done folder, unless another process is staging into it and so has locked it."""
    folders: list[int] = []
    try:   # extend() is one C call: a signal handler raises before it, or with the list filled
        folders.extend(map(os.open, (half_done,), (os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW,)))
        fcntl.flock(folders[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_folder(half_done, folders[0])
    except OSError:
        pass
    finally:
        for folder in folders:
            os.close(folder)


def _graph_specs(sources: _Sources, graph: Union[Source, Sequence[Source], None]) -> list[bytes]:
    if graph is None:
        return []
    array = hasattr(graph, "__array__") or hasattr(graph, "detach")
    graphs = [graph] if array or isinstance(graph, (str, os.PathLike)) else list(graph)
    if not graphs:
        raise InvalidError("graph=[]: no source; use an edge index, or None for no graph")
    return [sources.spec(one, "graph") for one in graphs]


def _set_sources(opts: c.rung_stage_opts, sources: _Sources, given: SimpleNamespace) -> None:
    graphs = _graph_specs(sources, given.graph)
    opts.graph.specs, opts.graph.spec_count = _texts(graphs)
    opts.graph.undirected, opts.graph.dedup = bool(given.undirected), bool(given.dedup)
    opts.graph.vertex_count = whole_number(given.vertex_count, "vertex_count", 2**63 - 1)
    if given.labels is not None:
        opts.labels = sources.spec(given.labels, "labels")
    opts.splits, opts.split_count = _named(sources, given.splits, "split", c.rung_stage_split)
    opts.arrays, opts.array_count = _named(sources, given.arrays, "array", c.rung_stage_array)
    if given.score_source is not None:
        opts.score_spec = sources.spec(given.score_source, "score_source")
    if given.features is None:
        if given.dataset is None:
            raise InvalidError("features=None: no features; pass features, or dataset")
        return
    if given.in_place and not isinstance(given.features, (str, os.PathLike)):
        raise InvalidError("in_place=True: the features are in memory; pass the path of a file "
                           "that stays in place")
    opts.features = sources.spec(given.features, "features")


def _set_score(opts: c.rung_stage_opts, given: SimpleNamespace) -> None:
    method = c_int()
    if given.score is not None and given.score_source is not None:
        raise InvalidError(f"score={given.score!r} and score_source: both rank the rows; use one "
                           "of them")
    score = "blend" if given.score is None else given.score
    check(lib.rung_score_method_parse(string(score, "score"), byref(method)))
    opts.score.method = method.value
    if given.draws is not None:
        opts.score.draws = choice(given.draws, DRAWS, "draws")
    opts.score.seed = whole_number(given.seed, "seed", 2**63 - 1)
    hops = fanout_array(given.fanouts)
    opts.fanouts, opts.fanout_count = hops, len(hops)
    opts.batch_size = whole_number(given.batch_size, "batch_size")


def _set_work(opts: c.rung_stage_opts, given: SimpleNamespace) -> None:
    opts.threads = whole_number(given.threads, "threads", 4096)
    opts.memory_bytes = size_bytes(given.memory, name="memory")
    opts.force, opts.resume = bool(given.force), bool(given.resume)
    opts.dry_run, opts.in_place = bool(given.dry_run), bool(given.in_place)
    opts.row_order = choice(given.row_order, ROW_ORDERS, "row_order")
    opts.pad = choice(given.pad, STAGE_PADS, "pad")
    folders = [string(folder, "stripe") for folder in given.stripe]
    opts.stripe_dirs, opts.stripe_count = _texts(folders)


def _set_described(opts: c.rung_stage_opts, described: Any, given: SimpleNamespace) -> None:
    """Fill in the options that the caller did not give from the description `given.dataset`.

    Args:
        described: owns the texts and lists that the options then refer to
    """
    parts = {"graph": c.RUNG_PRESET_GRAPH, "features": c.RUNG_PRESET_FEATURES,
             "labels": c.RUNG_PRESET_LABELS, "splits": c.RUNG_PRESET_SPLITS,
             "arrays": c.RUNG_PRESET_ARRAYS}
    wanted = [name for name in parts if getattr(given, name) is None]
    check(lib.rung_preset_open(c.RUNG_PRESET_DESCRIPTION, string(given.dataset, "dataset"), None,
                               sum(parts[name] for name in wanted), byref(described.pointer)))
    preset = described.pointer.contents
    if "graph" in wanted:
        opts.graph.specs, opts.graph.spec_count = preset.graphs, preset.graph_count
        opts.graph.undirected |= preset.undirected
    if "features" in wanted:
        opts.features = preset.features
    if "labels" in wanted:
        opts.labels = preset.labels
    if "splits" in wanted:
        opts.splits, opts.split_count = preset.splits, preset.split_count
    if "arrays" in wanted:
        opts.arrays, opts.array_count = preset.arrays, preset.array_count
    opts.vertex_type, opts.relation = preset.vertex_type, preset.relation
    opts.graph.vertex_count = opts.graph.vertex_count or preset.vertex_count
    opts.batch_size = opts.batch_size or preset.batch_size
    if opts.fanout_count == 0:
        opts.fanouts, opts.fanout_count = preset.fanouts, preset.fanout_count
    if given.draws is None:
        opts.score.draws = preset.draws


def _result(out: str, report: c.rung_stage_report) -> StageResult:
    phases = report.phases[: report.phase_count]
    return StageResult(
        out, report.vertex_count, report.edge_count, report.row_bytes, report.feature_bytes,
        report.bytes_written, report.memory_bytes, report.seconds, ROW_ORDERS[report.row_order],
        bool(report.in_place), bool(report.resumed),
        {text(phase.name): phase.seconds for phase in phases}, bool(report.already_staged))


def _run(given: SimpleNamespace) -> StageResult:
    """Stage with the arguments of stage()."""
    out = os.path.abspath(os.fsdecode(given.out))
    half_done = out + ".partial"
    opts, report = c.rung_stage_opts(), c.rung_stage_report()
    sources = _Sources(out)
    described: Any = Owned(lib.rung_preset_close, pointer=POINTER(c.rung_preset)())
    shown = _Progress(given.progress)
    # Do not remove half-done work that existed before this call, or that also has files in stripe
    # folders.
    kept = bool(given.stripe) or os.path.lexists(half_done)
    try:
        opts.out_dir, opts.progress = string(out, "out"), shown.function
        _set_sources(opts, sources, given)
        _set_score(opts, given)
        _set_work(opts, given)
        if given.dataset is not None:
            _set_described(opts, described, given)
        with shown:
            status = lib.rung_stage(byref(opts), byref(report))
        if shown.error is not None:
            raise shown.error
        check(status)
    except (BusyError, ExistsError):   # the half-done folder belongs to another process or job
        raise
    except BaseException:
        # The temporary files of arrays are removed now, so no later run could resume this work.
        if sources.folder is not None and not kept:
            _throw_away(half_done)
        raise
    finally:
        # The exception refers to this frame, and the frame to all arrays: a cycle that would keep
        # them in memory.
        shown.error = None
        described.release()
        sources.remove()
    if report.old_left:
        said = text(lib.rung_last_error())
        warnings.warn(said, RuntimeWarning, stacklevel=3)   # 3: the caller of stage()
    return _result(out, report)


def stage(out: Union[str, os.PathLike], *, features: Optional[Source] = None,
          graph: Union[Source, Sequence[Source], None] = None,
          dataset: Union[str, os.PathLike, None] = None, labels: Optional[Source] = None,
          splits: Optional[Mapping[str, Source]] = None,
          arrays: Optional[Mapping[str, Source]] = None, undirected: bool = False,
          dedup: bool = False, vertex_count: int = 0, score: Optional[str] = None,
          score_source: Optional[Source] = None, fanouts: Sequence[int] = (), batch_size: int = 0,
          draws: Optional[str] = None, seed: int = 0, memory: Size = 0, threads: int = 0,
          force: bool = False, resume: bool = False, dry_run: bool = False, in_place: bool = False,
          row_order: str = "auto", pad: str = "none",
          stripe: Sequence[Union[str, os.PathLike]] = (),
          progress: Union[bool, Progress, None] = None) -> StageResult:
    """Stage a data set: score the vertices, rank their rows, relabel the graph, write a folder.

    Sources are paths (.npy; "file.npz:member"; "raw:FILE,DTYPE,DIM[xDIM][,OFFSET]"; .csv and .txt,
    also .gz; "file.pt:key") or arrays in memory (numpy arrays, torch tensors). Arrays are written
    to temporary files in the folder that contains `out`.

    Args:
        out: folder to create for `rung.open()` in an existing folder; it appears when complete
        features: [vertices, ...] of any dtype; required without `dataset`
        dataset: path of a dataset.json (docs/DATASET.md), which provides what is not given here
        graph: integers [2, E] or [E, 2], each edge from row 0 to row 1, the direction in which
            messages flow; "csc:INDPTR,INDICES" with the in-neighbours of each vertex, "csr:..."
            with the out-neighbours; or a list of edge lists. None: no graph, as for rows of authors
            or items. `score_source` then ranks the rows; without it, rows of the train split come
            first and the others keep their order. Loaders return batches without edges
        labels: [vertices, ...]
        splits: ids [K] or bool [vertices] by name of the split; the score uses "train"
        arrays: further arrays [vertices, ...] by name
        undirected, dedup: add the reverse of each edge; keep one of equal edges
        vertex_count: number of vertices, which must be that of the feature rows; 0: that number
        score: "blend" (default), "expected", "presample", "ppr", "wrpagerank", "rpagerank" or
            "degree"
        score_source: float32 [vertices] that ranks the rows, instead of `score`
        fanouts, batch_size, draws: how training will sample: hop 0 first (default 25, 10), -1: all
            neighbours; seeds per batch (default 1024); "all" (DGL, default) or "new" (PyG)
        seed: seed of scores that draw
        memory: limit: bytes or "4GiB" (default: 1/4 of RAM, or 3/4 of free memory if that is less)
        threads: number of threads; 0: OpenMP's number
        force: replace `out` if it is a staged data set
        resume: continue an interrupted run. All sources must be files: arrays in memory cannot be
            recognised. If `out` is complete, it is checked and nothing is written
        dry_run: check inputs and free space and return an estimate, but write nothing
        in_place: leave the features in their file, which must not change while `out` is used
        row_order, pad, stripe: see rung-stage(1)
        progress: True (tqdm), or a function of (step, done, total). An exception in it cancels
            staging, as Ctrl-C does

    Returns:
        A `StageResult`.

    Raises:
        ExistsError, BusyError: `out` exists, or another job or process is staging to it.
        NotFoundError, FormatError, RangeError: a source does not exist, or is malformed.
        CorruptError: a written file or an input changed during the run.
        InvalidError: an argument is invalid, or `memory` is too small (`min_bytes` works).
        NoSpaceError, NoMemoryError, ReadError, CanceledError: see `rung.Error`.
    """
    return _run(SimpleNamespace(**locals()))
