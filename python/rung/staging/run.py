# SPDX-License-Identifier: Apache-2.0
"""rung.stage(): write a graph and its features to a folder, with the rows in rank order."""

from __future__ import annotations

import fcntl
import os
import warnings
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_double, c_int
from dataclasses import dataclass, field
from math import nan
from types import SimpleNamespace
from typing import Any

from .._library import (
    DRAWS,
    QUANT_FORMATS,
    QUANT_SCALES,
    ROW_ORDERS,
    STAGE_PADS,
    c,
    check,
    lib,
    string,
    text,
)
from ..errors import BusyError, Error, ExistsError, InvalidError
from ..owned import Owned, remove_folder
from ..sizes import Size, choice, fanout_array, size_bytes, whole_number
from .progress import Progress, ProgressFunction
from .sources import (
    Source,
    Sources,
    graph_specs,
    named_sources,
    preset_kind,
    texts,
    use_pyg_data,
    vertex_count,
)
from .typed import Lists, hetero_lists, is_hetero, masks, quantization, refuse, set_lists

Path = str | os.PathLike[str]


@dataclass
class QuantizedRows:
    """Size and errors of rows that were staged with `quantize`.

    Attributes:
        format, scales: as in `rung.Quantization`
        given_row_bytes: size of a row as it was given; `StageResult.row_bytes` is that of a stored
            row
        rows_compared: rows, all or a sample, to which the errors refer
        error_max, error_mean: largest and mean difference of values; nan if no row was compared
        clipped: share of clipped values, or nan
    """

    format: str
    scales: str
    given_row_bytes: int
    rows_compared: int
    error_max: float
    error_mean: float
    clipped: float


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
        quantized: `QuantizedRows`; None without `quantize`
        ranks: first and end of the ranks whose rows were staged: all, or those of `slice`
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
    quantized: QuantizedRows | None = None
    ranks: tuple[int, int] = (0, 0)


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


def _set_sources(opts: Any, sources: Sources, given: SimpleNamespace) -> None:
    if given.data is not None:
        use_pyg_data(sources, given)
        given.splits = masks(given.data, "data") if given.splits is None else given.splits
    graphs = graph_specs(sources, given.graph)
    opts.graph.specs, opts.graph.spec_count = texts(graphs)
    opts.graph.undirected, opts.graph.dedup = bool(given.undirected), bool(given.dedup)
    opts.graph.vertex_count = vertex_count(given)
    if given.labels is not None:
        opts.labels = sources.spec(given.labels, "labels")
    opts.splits, opts.split_count = named_sources(sources, given.splits, "splits",
                                                  c.rung_stage_split)
    opts.arrays, opts.array_count = named_sources(sources, given.arrays, "arrays",
                                                  c.rung_stage_array)
    if given.score_source is not None:
        opts.score_spec = sources.spec(given.score_source, "score_source")
    if given.features is None:
        if given.dataset is None:
            raise InvalidError("features=None: no features; pass features, or a dataset")
        return
    if given.in_place and not isinstance(given.features, (str, os.PathLike)):
        raise InvalidError("in_place=True: the features are in memory; pass the path of a file "
                           "that stays in place")
    opts.features = sources.spec(given.features, "features")


def _set_score(opts: Any, given: SimpleNamespace) -> None:
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
    if not isinstance(given.fanouts, Mapping):
        hops = fanout_array(given.fanouts)
        opts.fanouts, opts.fanout_count = hops, len(hops)
    if given.seed_type is not None:
        opts.seed_type = string(given.seed_type, "seed_type")
    opts.batch_size = whole_number(given.batch_size, "batch_size")


def _stripes(given: Any) -> tuple[list[bytes], list[float]]:
    """Return the folders of `stripe`, and for each the share with which its range of rows ends."""
    if isinstance(given, str | bytes | os.PathLike):
        given = [given]
    if not isinstance(given, (list, tuple, dict)):
        raise InvalidError(f"stripe: has type {type(given).__name__}; use a list of folders, or a "
                           "dict from shares to lists of folders")
    folders, shares = [], []
    for share, names in given.items() if isinstance(given, dict) else [(1, given)]:
        if not isinstance(share, int | float):
            raise InvalidError(f"stripe: {share!r} is not a share; use a number such as 0.4")
        for name in [names] if isinstance(names, str | bytes | os.PathLike) else names:
            folders.append(string(name, "stripe"))
            shares.append(float(share))
    return folders, shares


def _set_slice(opts: Any, sources: Sources, given: Any) -> None:
    if given is None:
        return
    if (not isinstance(given, (tuple, list)) or len(given) != 2
            or not all(isinstance(number, int) for number in given)
            or not 0 <= given[0] < given[1] <= c.RUNG_FEATURE_FILES_MAX):
        raise InvalidError(f"slice={given!r}: not a part; use (i, n) with 0 <= i < n <= "
                           f"{c.RUNG_FEATURE_FILES_MAX}")
    if sources.folder is not None:
        raise InvalidError(f"slice={given!r}: sources are in memory, so the work could not be "
                           "continued; pass the paths of files")
    opts.part, opts.part_count = given


def _set_work(opts: Any, given: SimpleNamespace) -> None:
    opts.threads = whole_number(given.threads, "threads", 4096)
    opts.memory_bytes = size_bytes(given.memory, name="memory")
    opts.force, opts.resume = bool(given.force), bool(given.resume)
    opts.dry_run, opts.in_place = bool(given.dry_run), bool(given.in_place)
    opts.row_order = choice(given.row_order, ROW_ORDERS, "row_order")
    opts.pad = choice(given.pad, STAGE_PADS, "pad")
    if given.quantize is not None and not isinstance(given.quantize, Mapping):
        opts.quantize, opts.quant_scales = quantization(given.quantize)
    folders, shares = _stripes(given.stripe)
    opts.stripe_dirs, opts.stripe_count = texts(folders)
    opts.stripe_shares = (c_double * len(shares))(*shares)


def _set_described(opts: Any, described: Any, given: SimpleNamespace) -> Lists | None:
    """Fill in the options that the caller did not give from the data set `given.dataset`.

    Args:
        described: owns the texts and lists that the options then refer to

    Returns:
        The types and relations of a typed graph, else None.
    """
    parts = {"graph": c.RUNG_PRESET_GRAPH, "features": c.RUNG_PRESET_FEATURES,
             "labels": c.RUNG_PRESET_LABELS, "splits": c.RUNG_PRESET_SPLITS,
             "arrays": c.RUNG_PRESET_ARRAYS}
    wanted = [name for name in parts if getattr(given, name) is None]
    part = None if given.part is None else string(given.part, "part")
    check(lib.rung_preset_open(preset_kind(given), string(given.dataset, "dataset"), part,
                               sum(parts[name] for name in wanted), byref(described.pointer)))
    preset = described.pointer.contents
    opts.seed_type = opts.seed_type or preset.seed_type
    if "graph" in wanted:
        opts.graph.specs, opts.graph.spec_count = preset.graphs, preset.graph_count
        opts.graph.undirected |= preset.undirected
        opts.graph.dedup |= preset.dedup
    if "features" in wanted:
        opts.features = preset.features
    if "labels" in wanted:
        opts.labels = preset.labels
    if "splits" in wanted:
        opts.splits, opts.split_count = preset.splits, preset.split_count
    if "arrays" in wanted:
        opts.arrays, opts.array_count = preset.arrays, preset.array_count
    opts.vertex_type, opts.relation = preset.vertex_type, preset.relation
    if preset.vertex_type:   # of a description; the rows of public data sets are counted
        opts.graph.vertex_count = vertex_count(given, preset.vertex_count)
    opts.batch_size = opts.batch_size or preset.batch_size
    if opts.fanout_count == 0:
        opts.fanouts, opts.fanout_count = preset.fanouts, preset.fanout_count
    if given.draws is None:
        opts.score.draws = preset.draws
    if not preset.type_count:
        return None
    return preset.types[:preset.type_count], preset.relations[:preset.relation_count]


def _result(out: str, opts: Any, report: Any) -> StageResult:
    errors = (report.quant_error_max, report.quant_error_mean, report.quant_clipped)
    quantized = None if not opts.quantize else QuantizedRows(
        QUANT_FORMATS[opts.quantize], QUANT_SCALES[opts.quant_scales], report.given_row_bytes,
        report.quant_rows, *(errors if report.quant_rows else (nan, nan, nan)))
    phases = report.phases[: report.phase_count]
    return StageResult(
        out, report.vertex_count, report.edge_count, report.row_bytes, report.feature_bytes,
        report.bytes_written, report.memory_bytes, report.seconds, ROW_ORDERS[report.row_order],
        bool(report.in_place), bool(report.resumed),
        {text(phase.name): phase.seconds for phase in phases}, bool(report.already_staged),
        quantized, (report.rank_first, report.rank_first + report.rank_count))


def _run(given: SimpleNamespace) -> StageResult:
    """Stage with the arguments of stage()."""
    out = os.path.abspath(os.fsdecode(string(given.out, "out")))
    half_done = out + ".partial"
    opts, report = c.rung_stage_opts(), c.rung_stage_report()
    sources = Sources(out)
    described: Any = Owned(lib.rung_preset_close, pointer=POINTER(c.rung_preset)())
    for name in ("preset", "part"):
        if getattr(given, name) is not None and given.dataset is None:
            raise InvalidError(f"{name}={getattr(given, name)!r}: dataset is missing; pass the "
                               "folder of the data set")
    shown = Progress(given.progress)
    # Do not remove half-done work that existed before this call, or that also has files in stripe
    # folders.
    kept = bool(given.stripe) or os.path.lexists(half_done)
    try:
        opts.out_dir, opts.progress = string(out, "out"), shown.function
        lists = hetero_lists(sources, given) if is_hetero(given.data) else None
        if lists is None:
            _set_sources(opts, sources, given)
        _set_score(opts, given)
        _set_work(opts, given)
        _set_slice(opts, sources, given.slice)
        if given.dataset is not None:
            lists = _set_described(opts, described, given)
        if lists is None:
            refuse(given)
        else:
            set_lists(opts, lists, given)
        if sources.left_out:   # 3: the caller of stage()
            warnings.warn(f"{', '.join(sources.left_out)}: not staged; pass arrays of vertices as "
                          "arrays=, delete the others", UserWarning, stacklevel=3)
        with shown:
            status = lib.rung_stage(byref(opts), byref(report))
        if shown.error is not None:
            raise shown.error
        check(status)
    except BaseException as error:
        if isinstance(error, Error):
            sources.name_arguments(error)
        # the half-done folder belongs to another process or job
        if isinstance(error, (BusyError, ExistsError)):
            raise
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
    return _result(out, opts, report)


def stage(out: Path, *, features: Source | None = None,
          graph: Source | Sequence[Source] | None = None, dataset: Path | None = None,
          preset: str | None = None, part: str | None = None, data: Any = None,
          labels: Source | None = None, splits: Mapping[str, Any] | None = None,
          arrays: Mapping[str, Any] | None = None, undirected: bool = False,
          dedup: bool = False, vertex_count: int = 0, score: str | None = None,
          score_source: Source | None = None, fanouts: Any = (), batch_size: int = 0,
          draws: str | None = None, seed: int = 0, seed_type: str | None = None, memory: Size = 0,
          threads: int = 0, force: bool = False, resume: bool = False, dry_run: bool = False,
          in_place: bool = False, row_order: str = "auto", pad: str = "none",
          slice: tuple[int, int] | None = None, quantize: str | Mapping[str, str] | None = None,
          stripe: Sequence[Path] | Mapping[float, Sequence[Path]] = (),
          progress: bool | ProgressFunction | None = None) -> StageResult:
    """Stage a data set: score the vertices, rank their rows, relabel the graph, write a folder.

    Sources are paths (.npy; "file.npz:member"; "raw:FILE,DTYPE,DIM[xDIM][,OFFSET]"; .csv and .txt,
    also .gz; "file.pt:key") or arrays in memory (numpy arrays, torch tensors). Arrays are written
    to temporary files in the folder that contains `out`.

    Args:
        out: folder to create for `rung.open()` in an existing folder; it appears when complete
        features: [vertices, ...] of any dtype; required without `dataset` and `data`
        dataset: what is not given here: path of a dataset.json (docs/DATASET.md), or with `preset`
            the folder of a public data set
        preset, part: "ogb-papers100M", "ogb-mag240m" (part "papers" or "all"), "igb" (a size)
        data: a torch_geometric `Data`, for x, edge_index, y, and splits (train_mask is "train");
            or a `HeteroData` for a typed graph, see docs/PYTHON.md
        graph: integers [2, E] or [E, 2], each edge from row 0 to row 1, the direction in which
            messages flow, or a pair (sources, destinations); a scipy matrix; "csc:INDPTR,INDICES"
            with the in-neighbours of each vertex, "csr:..." with the out-neighbours; or a list of
            these. None: no graph, see docs/PYTHON.md
        labels, arrays: [vertices, ...]; further arrays [vertices, ...] by name
        splits: ids [K] or bool [vertices] by name of the split; the score uses "train"
        undirected, dedup: add the reverse of each edge; keep one of equal edges
        vertex_count: number of vertices and of feature rows; 0: that of the rows
        score: "blend" (default), "expected", "presample", "ppr", "wrpagerank", "rpagerank" or
            "degree"; or use score_source: float32 [vertices] that ranks the rows
        fanouts, batch_size, draws: how training will sample: hop 0 first (default 25, 10), -1: all
            neighbours; seeds per batch (default 1024); "all" (DGL, default) or "new" (PyG)
        seed, seed_type: seed of scores that draw; type of the train vertices of a typed graph
        memory: limit: bytes or "4GiB" (default: 1/4 of RAM, or 3/4 of free memory if that is less)
        threads: their number; 0: that of OpenMP
        force: replace `out` if it is a staged data set
        resume: continue an interrupted run, whose sources must be files; check a complete `out`
        dry_run: check inputs and free space and return an estimate, but write nothing
        in_place: leave the features in their file, which must not change while `out` is used
        row_order, pad, slice: see rung-stage(1); slice=(i, n) is --part i/n, for n machines
        stripe: folders for the rows; `{0.4: ["/nvme0", "/nvme1"], 1: ["/san"]}` divides the ranks
        quantize: store floating-point features with 8 or 4 bits per value: "int8", "int4" or
            "fp8", with one scale per row, or per column: "int8:column"
        progress: True (tqdm), or a function of (step, done, total), whose exception cancels staging

    Raises:
        ExistsError, BusyError: `out` exists, or another job or process is staging to it.
        NotFoundError, FormatError, RangeError: a source, or another part, is missing or malformed.
        CorruptError: a written file or an input changed during the run.
        InvalidError: an argument is invalid, or `memory` is too small (`min_bytes` works).
        Others: see `rung.Error`.
    """
    return _run(SimpleNamespace(**locals()))
