# SPDX-License-Identifier: Apache-2.0
"""Statistics of stores and of loaders' epochs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ctypes import byref
from dataclasses import dataclass, fields
from html import escape
from math import isnan
from typing import TYPE_CHECKING, Any, cast

from ._library import PHASES, c, check, lib, text
from .errors import InvalidError, in_python
from .owned import Owned

if TYPE_CHECKING:
    from .store import Store

TIERS = ("gpu", "peer", "host", "nvme")   # names in src/tier/tier.h


@dataclass(frozen=True)
class Tier:
    """A memory tier.

    Attributes:
        name: "gpu", "peer", "host" or "nvme"
        rows: rows that the tier holds
        hits: rows that it has served
        bytes: size of the served rows
    """

    name: str
    rows: int
    hits: int
    bytes: int


def digits(value: Any) -> str:
    """Return a value for people: a float with 3 digits, a histogram by its filled entries."""
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {digits(each)}" for key, each in value.items()) + "}"
    if isinstance(value, tuple) and all(isinstance(each, int) for each in value):
        return "{" + ", ".join(f"{i}: {count}" for i, count in enumerate(value) if count) + "}"
    return repr(value)


def bytes_text(size: float) -> str:
    """Return a size in bytes with a unit, such as "1.2 GiB"."""
    unit = 0
    while size >= 1000 and unit < 4:
        size, unit = size / 1024, unit + 1
    return f"{digits(float(size))} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and values as HTML, for `_repr_html_()`, which notebooks call."""
    lines = "".join(f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(value)}</td>"
                    "</tr>" for name, value in rows)
    return f"<table><caption>{escape(title)}</caption>{lines}</table>"


class _Printed:
    """Prints the fields of a dataclass that are not 0 or empty, on one line or as a table."""

    def _shown(self) -> list[tuple[str, str]]:
        values = {each.name: getattr(self, each.name) for each in fields(cast(Any, self))}
        return [(name, digits(value)) for name, value in values.items()
                if value and digits(value) != "{}"]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={told}" for name, told in self._shown())
        return f"{type(self).__name__}({shown})"

    def _repr_html_(self) -> str:
        return html_table(f"rung.{type(self).__name__}", self._shown())


@dataclass(frozen=True, repr=False)
class Stats(_Printed):
    """Counters of a store since it was opened. repr() leaves out those that are 0.

    Each counter is exact. While gathers run, they are read at nearly the same moment. Hits on a GPU
    are counted after the gather has run.

    Attributes:
        tiers: a `Tier` for each tier, fastest first
        requests, request_errors: gathers, and those that failed
        device_reads, device_read_bytes: completed reads, and their bytes in whole sectors
        merged_rows: distinct rows that were read together with another row
        duplicate_rows: repeats of a cold row within one gather, which are read once
        retries: reads that were split or submitted again
        queue_depth: most reads in flight
        refill_threads: threads that read each features file; 0 if no row is cold
        engine: name of the I/O engine; "none" if no row is cold
        engine_why: why a better engine is not in use; "" otherwise
        file_engines: the engine of each features file, of which `engine` is the first
        direct: whether reads use O_DIRECT
        cache_hits: cold rows that were in the cache
        joined_rows: cold rows that waited for a read of another gather or process
        read_rows: distinct cold rows that a gather read itself
        failed_rows: cold rows of gathers that failed or were canceled
        cache_rows, cache_rows_filled: capacity of the cold-row cache, and rows in it
        late_rows: part of `read_rows`: the process that had started the read was stopped or slow
        cache_timeouts: times that another process was found to be stopped or slow
        cache_wait_ns: nanoseconds for which threads waited for the cache's lock
        cache_why: why an attached store does not use the shared cache; "" otherwise
        wait_rows_ns: nanoseconds in which at least one thread waited for rows
        wait_sample_ns: the same, for a batch that was not sampled yet
        read_ns: duration of all completed reads, added up
        reads_in_flight: reads in flight now; not a counter
        stats_page_why: why `rung top` cannot see the store; "" otherwise
        ahead_rows: rows read before their batch began, which counts them in `cache_hits`
        window_batches: most announced batches whose rows were read together
        host_waits: on a GPU: calls in which the calling thread waited for the GPU or for reads
        scatters: on a GPU: kernels that copied rows from staging slots
        latency: histogram of gathers, eight entries per octave of microseconds: entry b counts
            those that took b if b is below 8, else `(8 + b % 8) << (b // 8 - 1)` and more, up to
            the start of the next entry
        phases: for each phase of a read, "queue", "device" and "copy", the same histogram of
            reads in nanoseconds
    """

    tiers: tuple[Tier, ...]
    requests: int
    request_errors: int
    device_reads: int
    device_read_bytes: int
    merged_rows: int
    duplicate_rows: int
    retries: int
    queue_depth: int
    refill_threads: int
    engine: str
    engine_why: str
    file_engines: tuple[str, ...]
    direct: bool
    cache_hits: int
    joined_rows: int
    read_rows: int
    failed_rows: int
    cache_rows: int
    cache_rows_filled: int
    late_rows: int
    cache_timeouts: int
    cache_wait_ns: int
    cache_why: str
    wait_rows_ns: int
    wait_sample_ns: int
    read_ns: int
    reads_in_flight: int
    stats_page_why: str
    ahead_rows: int
    window_batches: int
    host_waits: int
    scatters: int
    latency: tuple[int, ...]
    phases: dict[str, tuple[int, ...]]

    @property
    def rows(self) -> int:
        """Rows served by all tiers."""
        return sum(tier.hits for tier in self.tiers)

    def hit_share(self, name: str) -> float:
        """Return a tier's share of the rows served, 0 to 1.

        NaN before the first row is served; 0 if the store does not have the tier.

        Args:
            name: "gpu", "peer", "host" or "nvme"

        Raises:
            InvalidError: another name.
        """
        if name not in TIERS:
            raise InvalidError(f"tier {name!r}: unknown tier; use one of {', '.join(TIERS)}")
        return (sum(tier.hits for tier in self.tiers if tier.name == name) / self.rows if self.rows
                else float("nan"))


@dataclass(frozen=True, repr=False)
class EpochStats(_Printed):
    """Statistics of the current epoch, or of the last one if none is running.

    Attributes:
        batches, rows, edges: numbers delivered to the trainer; the other values are for these
        seconds: duration of the epoch
        wait: seconds that the trainer waited for batches
        wait_sample: part of `wait` for batches not yet sampled; more `threads` reduce it
        wait_rows: part of `wait` for rows not yet gathered; more memory or `gathers` reduce it
        sample: seconds of sampling, over all sampling threads
        gather: seconds in which the feeder thread submitted gathers; on the CPU this includes
            copying rows that are in memory
        announce: seconds in which the feeder thread announced batches
        announced: batches announced; 0 if the store has no cold rows or no cache
        announce_refused: times that the store's window was full; the batch is announced again
            after the next gather
    """

    batches: int
    rows: int
    edges: int
    seconds: float
    wait: float
    wait_sample: float
    wait_rows: float
    sample: float
    gather: float
    announce: float
    announced: int
    announce_refused: int


def read_stats(memory: Owned) -> Stats:
    """Return the statistics of an open store."""
    found = c.rung_store_stats()
    check(lib.rung_store_stats(memory, byref(found)))
    return _stats_of(found)


def read_structure_stats(memory: Owned) -> Stats | None:
    """Return the statistics of the structure of an open store; None if it has none."""
    structure = structure_of(memory)
    if structure is None:
        return None
    return read_lists_stats(structure)


def read_lists_stats(structure: Owned | int) -> Stats:
    """Return the statistics of lists, of a store or of a relation."""
    found = c.rung_store_stats()
    check(lib.rung_structure_stats(structure, byref(found)))
    return _stats_of(found)


def _stats_of(found: Any) -> Stats:
    values = {each.name: getattr(found, each.name) for each in fields(Stats)}
    tiers = found.tiers[: found.tier_count]
    values.update(
        tiers=tuple(Tier(text(tier.name), tier.rows, tier.hits, tier.bytes) for tier in tiers),
        engine=text(found.engine), engine_why=text(found.engine_why),
        file_engines=tuple(text(name) for name in found.file_engines[: found.file_count]),
        cache_why=in_python(text(found.cache_why)), stats_page_why=text(found.stats_page_why),
        direct=bool(found.direct), latency=tuple(found.latency),
        phases={name: tuple(found.phases[i]) for i, name in enumerate(PHASES)})
    return Stats(**values)


def structure_of(memory: Owned) -> int | None:
    """Return the address of the structure of an open store; None if it has none."""
    address: int | None = lib.rung_store_structure(memory)
    return address


def has_cold_lists(memory: Owned) -> bool:
    """Return whether the structure of an open store reads some lists from the file."""
    stats = read_structure_stats(memory)
    return stats is not None and any(tier.name == "nvme" and tier.rows for tier in stats.tiers)


def state_of(store: Store) -> list[tuple[str, str]]:
    """Return what repr() prints of a store's state. Never opens the store of a forked child."""
    if store._closed:
        return [("on", f"{store.device}, closed")]
    if store._memory is None:
        return [("on", f"{store.device}, not opened in this process yet")]
    stats = store.stats()
    rows = sum(tier.rows for tier in stats.tiers if tier.name != "nvme")
    share = (f"{digits(100 * rows / max(len(store), 1))} %, "
             f"{bytes_text(rows * store.stored_row_bytes)}")
    budgets = [(name, repr(store._arguments[name])) for name in ("host", "gpu")
               if store._arguments.get(name) is not None]
    return [("on", store.device), *budgets, ("rows in memory", f"{rows} ({share})"),
            ("engine", stats.engine)]


def table_lines(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join([row[0].ljust(widths[0]),
                       *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))])
            for row in rows]


def size_text(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"


def time_text(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} us"


def number_text(number: float) -> str:
    if isnan(number):
        return "-"
    return f"{number:.3g}" if number < 1000 else f"{number:.0f}"


def share_text(share: float) -> str:
    return "-" if isnan(share) else f"{100 * share:.1f} %"
