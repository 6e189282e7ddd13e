# SPDX-License-Identifier: Apache-2.0
"""rung.stage(): from a graph and its features to a folder with the rows in rank order."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from ctypes import byref, c_char_p, c_int, c_uint32
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Optional, Union

import numpy as np

from ._library import DRAWS, STAGE_PADS, ROW_ORDERS, UINT32_MAX, c, check, lib, string, text
from .errors import BusyError, ExistsError, InvalidError
from .owned import Folder, remove_folder
from .sizes import Size, choice, size_bytes, whole_number

Source = Union[str, os.PathLike, np.ndarray, Any]
Progress = Callable[[str, int, int], None]


@dataclass
class StageResult:
    """What staging did, or with `dry_run` would do.

    Attributes: `path`, `vertex_count`, `edge_count`, `row_bytes`, `feature_bytes`, `bytes_written`
    (all files), `memory_bytes` (most held at once), `seconds`, `row_order` ("passes", "partition"
    or "gather"), `in_place`, `resumed`, `phases` (seconds by step), `already_staged` (`resume`
    found `path` whole and of this very job, and wrote nothing; `row_order` is "auto" then).
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
    """Calls the user's function from the library; an exception in it ends the work and is raised
    again afterwards.

    The same holds for an exception in a signal handler, for example after Ctrl-C. Handlers run
    when Python code runs next, which is when the library calls it: an exception there would be
    lost before this class could catch it. So inside `with` handlers run in a separate try block.
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
        self.function = c.rung_progress_fn(self._tell)   # always there, for the signals

    def __enter__(self) -> _Progress:
        try:
            # no other thread runs handlers, or may set them
            if threading.current_thread() is threading.main_thread():
                for number in signal.valid_signals():
                    handler = signal.getsignal(number)
                    if callable(handler):
                        self._handlers[number] = handler
                        signal.signal(number, self._signal)
            return self
        except BaseException:   # of one that is not replaced yet
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
        except BaseException:   # of one that is restored already
            self._restore()
            raise

    def _signal(self, number: int, frame: Any) -> None:
        try:
            handler = self._handlers.get(number)
            if handler is not None:   # else it was restored when this had begun
                handler(number, frame)
        except BaseException as error:   # pylint: disable=broad-exception-caught
            self.error = error

    def _tell(self, _ctx, stage, done, total) -> int:
        try:
            if self._call and self.error is None:
                self._call(text(stage), done, total)
        # an exception cannot cross the library
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
    """Specs of what the caller gave; arrays in memory are written to files first, on the disk that
    the data set goes to."""

    def __init__(self, out: str):
        self._parent = os.path.dirname(os.path.abspath(out))
        self._count = 0
        self.folder: Optional[Folder] = None   # for the first array

    def spec(self, source: Source, name: str) -> bytes:
        if isinstance(source, (str, os.PathLike)):
            return string(source, name)
        if hasattr(source, "detach"):   # torch
            source = source.detach().cpu()
            if str(source.dtype) == "torch.bfloat16":
                import torch

                source = source.contiguous().view(torch.int16).numpy().view("V2")
            else:
                source = source.numpy()
        array = np.ascontiguousarray(source)
        if array.dtype.hasobject or np.ndim(source) == 0:
            raise InvalidError(f"{name}: a source is a path, 'file.npz:member', 'raw:...', or an "
                               f"array; not {type(source).__name__}")
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
    entries = [struct(string(name, what), sources.spec(source, f"{what} {name}"))
               for name, source in (given or {}).items()]
    return (struct * len(entries))(*entries) if entries else None, len(entries)


def _texts(given: Sequence[bytes]):
    return (c_char_p * len(given))(*given), len(given)


def fanout_array(fanouts: Sequence[int]):
    """uint32 [hops] for the library; -1 stands for all neighbours."""
    try:
        listed = [-1 if fanout == -1 else whole_number(fanout, "fanouts", UINT32_MAX - 1)
                  for fanout in fanouts]
    except TypeError:
        raise InvalidError(f"fanouts={fanouts!r}: give a list of one number per hop, "
                           "such as (15, 10)") from None
    if 0 in listed:
        raise InvalidError(f"fanouts={listed}: each is 1 or more, or -1 for all neighbours")
    return (c_uint32 * len(listed))(*[UINT32_MAX if fanout == -1 else fanout for fanout in listed])


def _throw_away(half_done: str) -> None:
    """Remove the folder, unless another process is staging into it by now: those hold a lock on
    it."""
    folders: list[int] = []
    try:   # extend() is one step: an exception of a signal finds the descriptor in the list
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
        raise InvalidError("graph: an empty list has no source; give an edge index, or None")
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
    if given.in_place and not isinstance(given.features, (str, os.PathLike)):
        raise InvalidError("in_place: the features have to be in a file that stays: give its path")
    opts.features = sources.spec(given.features, "features")


def _set_score(opts: c.rung_stage_opts, given: SimpleNamespace) -> None:
    method = c_int()
    if given.score is not None and given.score_source is not None:
        raise InvalidError(f"score={given.score!r} and score_source: both rank the rows; give one")
    score = "blend" if given.score is None else given.score
    check(lib.rung_score_method_parse(string(score, "score"), byref(method)))
    opts.score.method, opts.score.draws = method.value, choice(given.draws, DRAWS, "draws")
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


def _result(out: str, report: c.rung_stage_report) -> StageResult:
    phases = report.phases[: report.phase_count]
    return StageResult(
        out, report.vertex_count, report.edge_count, report.row_bytes, report.feature_bytes,
        report.bytes_written, report.memory_bytes, report.seconds, ROW_ORDERS[report.row_order],
        bool(report.in_place), bool(report.resumed),
        {text(phase.name): phase.seconds for phase in phases}, bool(report.already_staged))


def _run(given: SimpleNamespace) -> StageResult:
    """stage() of these arguments of it."""
    out = os.path.abspath(os.fsdecode(given.out))
    half_done = out + ".partial"
    opts, report = c.rung_stage_opts(), c.rung_stage_report()
    sources = _Sources(out)
    shown = _Progress(given.progress)
    # half-done work that is not ours alone to throw away
    kept = bool(given.stripe) or os.path.lexists(half_done)
    try:
        opts.out_dir, opts.progress = string(out, "out"), shown.function
        _set_sources(opts, sources, given)
        _set_score(opts, given)
        _set_work(opts, given)
        with shown:
            status = lib.rung_stage(byref(opts), byref(report))
        if shown.error is not None:
            raise shown.error
        check(status)
    except (BusyError, ExistsError):   # another's
        raise
    except BaseException:
        # it is of files that go now: nothing could go on with it
        if sources.folder is not None and not kept:
            _throw_away(half_done)
        raise
    finally:
        shown.error = None   # it leads to this frame, and that to all arrays
        sources.remove()
    if report.old_left:
        said = text(lib.rung_last_error())
        warnings.warn(said, RuntimeWarning, stacklevel=3)   # where stage() was called
    return _result(out, report)


def stage(out: Union[str, os.PathLike], *, features: Source,
          graph: Union[Source, Sequence[Source], None] = None, labels: Optional[Source] = None,
          splits: Optional[Mapping[str, Source]] = None,
          arrays: Optional[Mapping[str, Source]] = None, undirected: bool = False,
          dedup: bool = False, vertex_count: int = 0,
          score: Optional[str] = None, score_source: Optional[Source] = None,
          fanouts: Sequence[int] = (), batch_size: int = 0, draws: str = "all", seed: int = 0,
          memory: Size = 0, threads: int = 0,
          force: bool = False, resume: bool = False, dry_run: bool = False, in_place: bool = False,
          row_order: str = "auto", pad: str = "none",
          stripe: Sequence[Union[str, os.PathLike]] = (),
          progress: Union[bool, Progress, None] = None) -> StageResult:
    """Score the vertices, rank their rows, relabel the graph, and write the folder `out` for
    `rung.open()`.

    Sources are paths (.npy; "file.npz:member"; "raw:FILE,DTYPE,DIM[xDIM][,OFFSET]"; .csv and .txt,
    .gz too; "file.pt:key") or arrays in memory (numpy, or torch tensors), which are written to
    temporary files in the folder of `out`.

    Args:
        out: folder to create; its parent must exist. It appears under its name only when it is
            complete
        graph: integers [2, E] or [E, 2], each edge from row 0 to row 1 in the direction messages
            flow; "csc:INDPTR,INDICES" with the in-neighbours of each vertex, "csr:..." with the
            out-neighbours; or several edge lists. None: no graph, as for rows of authors or items.
            Rows are then ranked by `score_source`; without it those of the train split come first,
            the others in their order. Loaders return batches without edges
        features: [vertices, ...] of any dtype
        labels: [vertices, ...]
        splits: name to ids [K] or bool [vertices]; "train" gives the train vertices of the score
        arrays: further arrays [vertices, ...] by name
        score: "blend" (default), "expected", "presample", "ppr", "wrpagerank", "rpagerank" or
            "degree"
        score_source: float32 [vertices] to rank by, instead of `score`
        fanouts, batch_size, draws: how training will sample, hop 0 first (default 25, 10 and 1024);
            -1: all neighbours; draws "all" (DGL) or "new" (PyG)
        memory: most memory to use: bytes or "4GiB" (default: a quarter of RAM, less if less is
            free)
        force: replace `out` when it is a staged data set. resume: continue an interrupted
            run, if all sources are files: arrays in memory cannot be recognised. If this job has
            finished `out` already, its files are checked and nothing is written (`already_staged`)
        in_place: leave the features in their file, which `out` then needs unchanged
        row_order, pad, stripe, dry_run: see rung-stage(1)
        progress: True (tqdm) or a function of (step, done, total); an exception in it
            cancels, as Ctrl-C does

    Raises ExistsError, NotFoundError, FormatError, RangeError, NoSpaceError, NoMemoryError,
    BusyError, CanceledError, ReadError, InvalidError, and CorruptError when a file that was
    written, or an input, was changed during the run: nothing is published then.
    """
    return _run(SimpleNamespace(**locals()))
