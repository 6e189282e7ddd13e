# SPDX-License-Identifier: Apache-2.0
"""librung by ctypes: where it is found, its structs, and its functions with their types. Calls give up the GIL while they run."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from ctypes import CFUNCTYPE, POINTER, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint, c_uint32, c_uint64, c_ulonglong, c_void_p
from typing import NoReturn

from .errors import InvalidError, LibraryError, error_of

VERSION = "0.1.0"

BYTES_MAX = 2**64 - 1
BYTES_NONE = 2**64 - 2
UINT32_MAX = 2**32 - 1
DIMS_MAX = 8
TIERS_MAX = 8
LATENCY_BUCKETS = 64
STAGES = ("queue", "device", "copy")
ENGINE_STEPS_MAX = 8
PROFILE_ROWS_MAX = PROFILE_READS_MAX = 1024
PROFILE_GPU_ROWS_MAX = PROFILE_DRIVES_MAX = 16
DRIVE_NAME_BYTES = 64
PHASES_MAX = 8

RANKS, VERTICES = 0, 1
DEVICES = ("cpu", "cuda", "auto")
ENGINES = ("auto", "io_uring", "pread", "io_uring_poll", "nvme")
NUMA_POLICIES = ("auto", "node", "interleave", "none")
STAGE_PLANS = ("auto", "passes", "deal", "gather")
STAGE_PADS = ("none", "sector", "auto")
DRAWS = ("all", "new")

ProgressFn = CFUNCTYPE(c_int, c_void_p, c_char_p, c_ulonglong, c_ulonglong)


class Struct(ctypes.Structure):
    """Structs whose first field is their size have it set: that is how the library knows what the caller was built for."""

    _c_name_ = ""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if self._fields_[0][0] == "size":
            self.size = ctypes.sizeof(self)


class ArrayInfo(Struct):
    _c_name_ = "rung_array_info"
    _fields_ = [("dtype", c_int), ("dim_count", c_uint), ("dims", c_uint64 * DIMS_MAX), ("row_count", c_uint64), ("row_bytes", c_uint64)]


class Ids(Struct):
    _c_name_ = "rung_ids"
    _fields_ = [("data", c_void_p), ("count", c_uint64), ("dtype", c_int), ("space", c_int)]


class Csc(Struct):
    _c_name_ = "rung_csc"
    _fields_ = [("vertex_count", c_uint64), ("edge_count", c_uint64), ("indptr", c_void_p), ("indices", c_void_p), ("index_bytes", c_uint)]


class GraphOpts(Struct):
    _c_name_ = "rung_graph_opts"
    _fields_ = [("size", c_size_t), ("specs", POINTER(c_char_p)), ("spec_count", c_size_t), ("vertex_count", c_uint64), ("undirected", c_int),
                ("dedup", c_int), ("progress", ProgressFn), ("progress_ctx", c_void_p)]


class ScoreOpts(Struct):
    _c_name_ = "rung_score_opts"
    _fields_ = [("size", c_size_t), ("method", c_int), ("iterations", c_uint32), ("damping", c_double), ("tolerance", c_double),
                ("train", c_void_p), ("train_count", c_uint64), ("threads", c_uint32), ("progress", ProgressFn), ("progress_ctx", c_void_p),
                ("fanouts", POINTER(c_uint32)), ("hop_count", c_uint32), ("batch_size", c_uint32), ("draws", c_int), ("seed", c_uint64),
                ("epochs", c_uint32), ("batches_max", c_uint32), ("memory_bytes", c_uint64)]


class ScoreReport(Struct):
    _c_name_ = "rung_score_report"
    _fields_ = [("edge_passes", c_uint64), ("iterations", c_uint32), ("residual", c_double), ("batches_sampled", c_uint64), ("seconds", c_double)]


class NamedSpec(Struct):
    """Of struct rung_stage_split and rung_stage_array, which are the same."""

    _c_name_ = "rung_stage_split"
    _fields_ = [("name", c_char_p), ("spec", c_char_p)]


class StageOpts(Struct):
    _c_name_ = "rung_stage_opts"
    _fields_ = [("size", c_size_t), ("graph", GraphOpts), ("features", c_char_p), ("out_dir", c_char_p), ("labels", c_char_p),
                ("splits", POINTER(NamedSpec)), ("split_count", c_size_t), ("score", ScoreOpts), ("score_spec", c_char_p),
                ("fanouts", POINTER(c_uint32)), ("fanout_count", c_uint32), ("batch_size", c_uint32), ("threads", c_uint32), ("force", c_int),
                ("dry_run", c_int), ("progress", ProgressFn), ("progress_ctx", c_void_p), ("memory_bytes", c_uint64), ("resume", c_int),
                ("plan", c_int), ("pad", c_int), ("stripe_dirs", POINTER(c_char_p)), ("stripe_count", c_size_t), ("arrays", POINTER(NamedSpec)),
                ("array_count", c_size_t), ("in_place", c_int)]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.graph.size = ctypes.sizeof(GraphOpts)
        self.score.size = ctypes.sizeof(ScoreOpts)


class StagePhase(Struct):
    _c_name_ = "rung_stage_phase"
    _fields_ = [("name", c_char_p), ("seconds", c_double), ("bytes_read", c_uint64), ("bytes_written", c_uint64)]


class StageReport(Struct):
    _c_name_ = "rung_stage_report"
    _fields_ = [("vertex_count", c_uint64), ("edge_count", c_uint64), ("row_bytes", c_uint64), ("feature_bytes", c_uint64),
                ("bytes_written", c_uint64), ("free_bytes", c_uint64), ("memory_bytes", c_uint64), ("score", ScoreReport), ("seconds", c_double),
                ("budget_bytes", c_uint64), ("graph_in_files", c_int), ("resumed", c_int), ("rows_resumed", c_uint64), ("plan", c_int),
                ("range_count", c_uint64), ("rows_bytes_read", c_uint64), ("rows_bytes_written", c_uint64), ("temp_bytes", c_uint64),
                ("rows_seconds", c_double), ("plan_seconds", c_double * 4), ("read_bytes_per_s", c_double), ("write_bytes_per_s", c_double),
                ("row_reads_per_s", c_double), ("row_stride", c_uint64), ("feature_file_count", c_uint32), ("phase_count", c_size_t),
                ("phases", StagePhase * PHASES_MAX), ("in_place", c_int),
                ("already_staged", c_int), ("old_left", c_int)]


class DatasetInfo(Struct):
    _c_name_ = "rung_dataset_info"
    _fields_ = [("format_version", c_uint32), ("vertex_count", c_uint64), ("edge_count", c_uint64), ("features", ArrayInfo),
                ("row_stride", c_uint64), ("feature_bytes", c_uint64), ("index_bytes", c_uint), ("score_method", c_char_p),
                ("score_iterations", c_uint32), ("score_damping", c_double), ("fanouts", POINTER(c_uint32)), ("fanout_count", c_uint32),
                ("batch_size", c_uint32), ("has_labels", c_int), ("split_count", c_size_t), ("split_names", POINTER(c_char_p)),
                ("file_count", c_size_t), ("feature_file_count", c_uint32), ("block_rows", c_uint64), ("draws", c_int), ("score_sampled", c_int),
                ("score_batches", c_uint64), ("score_seed", c_uint64), ("array_count", c_size_t), ("array_names", POINTER(c_char_p)),
                ("features_path", c_char_p), ("features_offset", c_uint64), ("features_file_bytes", c_uint64)]


class ProfileRows(Struct):
    _c_name_ = "rung_profile_rows"
    _fields_ = [("all_cores", c_int), ("threads", c_uint32), ("cpu_node", c_uint32), ("memory_node", c_uint32), ("row_bytes", c_uint64),
                ("rows_per_s", c_double)]


class ProfileGpuRows(Struct):
    _c_name_ = "rung_profile_gpu_rows"
    _fields_ = [("row_bytes", c_uint64), ("rows_per_s", c_double)]


class ProfileDrive(Struct):
    _c_name_ = "rung_profile_drive"
    _fields_ = [("name", c_char * DRIVE_NAME_BYTES)]


class ProfileReads(Struct):
    _c_name_ = "rung_profile_reads"
    _fields_ = [("drive", c_uint32), ("read_bytes", c_uint64), ("depth", c_uint32), ("reads_per_s", c_double)]


class Profile(Struct):
    _c_name_ = "rung_profile"
    _fields_ = [("size", c_size_t), ("rows_count", c_uint32), ("rows", ProfileRows * PROFILE_ROWS_MAX), ("drive_count", c_uint32),
                ("drives", ProfileDrive * PROFILE_DRIVES_MAX), ("reads_count", c_uint32), ("reads", ProfileReads * PROFILE_READS_MAX),
                ("gpu_rows_count", c_uint32), ("peer_rows_count", c_uint32), ("link_rows_count", c_uint32),
                ("gpu_rows", ProfileGpuRows * PROFILE_GPU_ROWS_MAX), ("peer_rows", ProfileGpuRows * PROFILE_GPU_ROWS_MAX),
                ("link_rows", ProfileGpuRows * PROFILE_GPU_ROWS_MAX)]


class PlanOpts(Struct):
    _c_name_ = "rung_plan_opts"
    _fields_ = [("size", c_size_t), ("host_bytes", c_uint64), ("queue_depth", c_uint32), ("device", c_int), ("gpus", POINTER(c_int)),
                ("gpu_count", c_uint32), ("gpu_bytes", c_uint64), ("gpu_spare_bytes", c_uint64), ("replicate_bytes", c_uint64),
                ("sample_on_gpu", c_int), ("vertex_ids", c_int), ("cache_bytes", c_uint64), ("numa", c_int), ("numa_node", c_uint32),
                ("profile", POINTER(Profile)), ("cache_share", c_double)]


class PlanDevice(Struct):
    _c_name_ = "rung_plan_device"
    _fields_ = [("device", c_int), ("why", c_char_p), ("gpus", POINTER(c_int)), ("gpu_count", c_uint32), ("map_on_gpu", c_int)]


class StoreOpts(Struct):
    _c_name_ = "rung_store_opts"
    _fields_ = [("size", c_size_t), ("requests_max", c_uint32), ("batch_rows_max", c_uint32), ("queue_depth", c_uint32), ("engine", c_int),
                ("no_merge", c_int), ("buffered", c_int), ("vertex_ids", c_int),
                ("share_path", c_char_p), ("gap_bytes", c_uint32), ("read_timeout_ms", c_uint32),
                ("window_rows_max", c_uint64), ("private_cache", c_int), ("gpu", POINTER(c_int))]


class StoreInfo(Struct):
    _c_name_ = "rung_store_info"
    _fields_ = [("size", c_size_t), ("vertex_count", c_uint64), ("features", ArrayInfo), ("dataset_dir", c_char_p), ("attached", c_int),
                ("device", c_int), ("gpu", c_int), ("gpu_count", c_uint32), ("map_on_gpu", c_int)]


class TierStats(Struct):
    _fields_ = [("name", c_char_p), ("rows", c_uint64), ("hits", c_uint64), ("bytes", c_uint64)]


class EngineStep(Struct):
    _c_name_ = "rung_engine_step"
    _fields_ = [("name", c_char_p), ("why", c_char_p)]


class StoreStats(Struct):
    _c_name_ = "rung_store_stats"
    _fields_ = [("size", c_size_t), ("tier_count", c_uint32), ("tiers", TierStats * TIERS_MAX), ("requests", c_uint64),
                ("request_errors", c_uint64), ("device_reads", c_uint64), ("device_read_bytes", c_uint64), ("merged_rows", c_uint64),
                ("duplicate_rows", c_uint64), ("retries", c_uint64), ("queue_depth", c_uint32), ("sector_bytes", c_uint32), ("engine", c_char_p),
                ("engine_why", c_char_p), ("direct", c_int), ("latency", c_uint64 * LATENCY_BUCKETS), ("host_waits", c_uint64),
                ("scatters", c_uint64), ("cache_hits", c_uint64), ("joined_rows", c_uint64), ("read_rows", c_uint64), ("failed_rows", c_uint64),
                ("cache_rows", c_uint64), ("cache_rows_filled", c_uint64), ("gap_bytes", c_uint32), ("read_bytes_max", c_uint32),
                ("stages", (c_uint64 * LATENCY_BUCKETS) * len(STAGES)), ("engine_steps", EngineStep * ENGINE_STEPS_MAX),
                ("engine_parts", EngineStep * ENGINE_STEPS_MAX), ("engine_step_count", c_uint32), ("engine_part_count", c_uint32),
                ("places", c_void_p), ("place_count", c_uint32), ("late_rows", c_uint64),
                ("cache_timeouts", c_uint64), ("cache_wait_ns", c_uint64), ("cache_why", c_char_p)]


class SamplerOpts(Struct):
    _c_name_ = "rung_sampler_opts"
    _fields_ = [("size", c_size_t), ("fanouts", POINTER(c_uint32)), ("hop_count", c_uint32), ("seed", c_uint64), ("threads", c_uint32),
                ("draws", c_int), ("table_bytes_max", c_uint64)]


class Block(Struct):
    _c_name_ = "rung_block"
    _fields_ = [("dst_count", c_uint64), ("src_count", c_uint64), ("edge_count", c_uint64), ("indptr", c_void_p), ("indices", c_void_p)]


class GpuSamplerOpts(Struct):
    _c_name_ = "rung_gpu_sampler_opts"
    _fields_ = [("size", c_size_t), ("fanouts", POINTER(c_uint32)), ("hop_count", c_uint32),
                ("seed", c_uint64), ("seed_count_max", c_uint64), ("vertex_count_max", c_uint64),
                ("edge_count_max", c_uint64), ("draws", c_int)]


class LoaderOpts(Struct):
    _c_name_ = "rung_loader_opts"
    _fields_ = [("size", c_size_t), ("sampler", SamplerOpts), ("batch_size", c_uint64), ("threads", c_uint32), ("ahead", c_uint32),
                ("gathers", c_uint32), ("gpu_sampler", c_void_p)]


class LoaderPass(Struct):
    _c_name_ = "rung_loader_pass"
    _fields_ = [("size", c_size_t), ("seeds", c_void_p), ("seed_count", c_uint64), ("key_first", c_uint64), ("shuffle", c_int),
                ("shuffle_seed", c_uint64), ("batch_first", c_uint64), ("drop_last", c_int)]


class LoaderBatch(Struct):
    _c_name_ = "rung_loader_batch"
    _fields_ = [("batch_idx", c_uint64), ("seeds", c_void_p), ("seed_count", c_uint64), ("ranks", c_void_p), ("rank_count", c_uint64),
                ("blocks", POINTER(POINTER(Block))), ("block_count", c_uint32), ("rows", c_void_p),
                ("request", c_void_p), ("on_gpu", c_int)]


class LoaderStats(Struct):
    _c_name_ = "rung_loader_stats"
    _fields_ = [("size", c_size_t), ("batches", c_uint64), ("rows", c_uint64), ("edges", c_uint64), ("seconds", c_double), ("wait_s", c_double),
                ("wait_sample_s", c_double), ("wait_rows_s", c_double), ("sample_s", c_double), ("gather_s", c_double), ("announce_s", c_double),
                ("announced", c_uint64), ("announce_refused", c_uint64)]


_P = c_void_p   # handles, and pointers that only pass through

FUNCTIONS = {
    "rung_status_name": (c_char_p, [c_int]),
    "rung_last_error": (c_char_p, []),
    "rung_last_error_least": (c_ulonglong, []),
    "rung_version": (c_char_p, []),
    "rung_commit": (c_char_p, []),
    "rung_feature": (c_char_p, [c_uint, POINTER(c_int), POINTER(c_char_p)]),
    "rung_free": (None, [_P]),
    "rung_dtype_name": (c_char_p, [c_int]),
    "rung_score_method_parse": (c_int, [c_char_p, POINTER(c_int)]),
    "rung_stage": (c_int, [POINTER(StageOpts), POINTER(StageReport)]),
    "rung_dataset_open": (c_int, [c_char_p, POINTER(_P)]),
    "rung_dataset_close": (None, [_P]),
    "rung_dataset_info": (POINTER(DatasetInfo), [_P]),
    "rung_dataset_load_array": (c_int, [_P, c_char_p, POINTER(ArrayInfo), POINTER(_P)]),
    "rung_dataset_load_graph": (c_int, [_P, POINTER(_P)]),
    "rung_graph_csc": (POINTER(Csc), [_P]),
    "rung_graph_destroy": (None, [_P]),
    "rung_profile_load": (c_int, [c_char_p, POINTER(Profile)]),
    "rung_plan_create": (c_int, [_P, POINTER(PlanOpts), POINTER(_P)]),
    "rung_plan_destroy": (None, [_P]),
    "rung_plan_device": (POINTER(PlanDevice), [_P]),
    "rung_store_open": (c_int, [_P, _P, POINTER(StoreOpts), POINTER(_P)]),
    "rung_store_attach": (c_int, [c_char_p, POINTER(StoreOpts), POINTER(_P)]),
    "rung_store_close": (c_int, [_P]),
    "rung_store_info": (c_int, [_P, POINTER(StoreInfo)]),
    "rung_store_stats": (c_int, [_P, POINTER(StoreStats)]),
    "rung_store_alloc": (c_int, [_P, c_uint64, POINTER(_P)]),
    "rung_store_free": (None, [_P, _P]),
    "rung_store_copy": (c_int, [_P, _P, _P, c_uint64]),
    "rung_gather": (c_int, [_P, POINTER(Ids), _P, c_size_t]),
    "rung_gather_submit": (c_int, [_P, POINTER(Ids), _P, c_size_t, _P, POINTER(_P)]),
    "rung_prefetch": (c_int, [_P, POINTER(Ids)]),
    "rung_request_poll": (c_int, [_P]),
    "rung_request_wait": (c_int, [_P, c_int64]),
    "rung_request_wait_stream": (c_int, [_P, _P]),
    "rung_request_error": (c_char_p, [_P]),
    "rung_request_put": (None, [_P]),
    "rung_sampler_create": (c_int, [POINTER(Csc), POINTER(SamplerOpts), POINTER(_P)]),
    "rung_sampler_destroy": (None, [_P]),
    "rung_sampler_sample": (c_int, [_P, _P, c_uint64, c_uint64, _P]),
    "rung_batch_create": (c_int, [POINTER(_P)]),
    "rung_batch_destroy": (None, [_P]),
    "rung_batch_vertices": (_P, [_P, POINTER(c_uint64)]),
    "rung_batch_block": (POINTER(Block), [_P, c_uint32]),
    "rung_gpu_sampler_create": (c_int, [_P, _P, _P, POINTER(GpuSamplerOpts), POINTER(_P)]),
    "rung_gpu_sampler_destroy": (None, [_P]),
    "rung_loader_create": (c_int, [_P, POINTER(Csc), POINTER(LoaderOpts), POINTER(_P)]),
    "rung_loader_destroy": (None, [_P]),
    "rung_loader_begin": (c_int, [_P, POINTER(LoaderPass)]),
    "rung_loader_next": (c_int, [_P, POINTER(_P)]),
    "rung_loader_put": (None, [_P, _P, _P]),
    "rung_loader_end": (c_int, [_P]),
    "rung_loader_warm_up": (c_int, [_P, POINTER(LoaderPass)]),
    "rung_loader_stats": (c_int, [_P, POINTER(LoaderStats)]),
}


def _find() -> str:
    """RUNG_LIBRARY, the library that the wheel carries, or one that is installed."""
    given = os.environ.get("RUNG_LIBRARY")
    if given:
        return given
    carried = os.path.join(os.path.dirname(__file__), "librung.so")
    if os.path.exists(carried):
        return carried
    return ctypes.util.find_library("rung") or carried


def _load() -> ctypes.CDLL:
    path = _find()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise LibraryError(f"{path}: {error}; install the package ('pip install ./python') or set RUNG_LIBRARY to librung.so") from None
    for name, (result, args) in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise LibraryError(f"{path}: has no {name}: it is not the librung {VERSION} that this package is for") from None
        function.restype, function.argtypes = result, args
    found = library.rung_version().decode()
    if found != VERSION:
        raise LibraryError(f"{path}: is librung {found}, this package is for {VERSION}; install both from the same checkout")
    return library


lib = _load()


def raise_last(status: int) -> NoReturn:
    """The exception of a call that failed on this thread."""
    raise error_of(status, lib.rung_status_name(status).decode(), os.fsdecode(lib.rung_last_error()), lib.rung_last_error_least())


def check(status: int) -> int:
    """`status`, when it is no failure."""
    if status < 0:
        raise_last(status)
    return status


def string(value: str | bytes | os.PathLike, name: str) -> bytes:
    """A path or name as the library takes it. A zero byte would end it early there."""
    found = os.fsencode(value)
    if b"\0" in found:
        raise InvalidError(f"{name}={value!r}: has a zero byte")
    return found


def text(value: bytes | None) -> str:
    """A string of the library; "" for none."""
    return os.fsdecode(value) if value else ""


