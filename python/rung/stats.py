# SPDX-License-Identifier: Apache-2.0
"""What a store has done since it was opened."""

from __future__ import annotations

from ctypes import byref
from dataclasses import dataclass, fields

from ._library import PHASES, c, check, lib, text
from .errors import InvalidError
from .owned import Owned


TIERS = ("gpu", "peer", "host", "nvme")   # src/tier/tier.h


@dataclass(frozen=True)
class Tier:
    """A rung of the ladder: `rows` it holds, `hits` it served, their `bytes`."""

    name: str
    rows: int
    hits: int
    bytes: int


@dataclass(frozen=True)
class Stats:
    """Counters of a store since it was opened. Each is exact; together they are of about the same
    moment."""

    tiers: tuple[Tier, ...]
    requests: int
    request_errors: int
    device_reads: int
    device_read_bytes: int
    merged_rows: int
    duplicate_rows: int
    retries: int
    queue_depth: int
    engine: str
    engine_why: str
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
    host_waits: int
    scatters: int
    latency: tuple[int, ...]
    phases: dict[str, tuple[int, ...]]

    @property
    def rows(self) -> int:
        """Rows served, by all tiers."""
        return sum(tier.hits for tier in self.tiers)

    def hit_share(self, name: str) -> float:
        """Share of the rows served that a tier served; NaN before the first, 0 without the tier.

        Args:
            name: "gpu", "peer", "host" or "nvme"
        """
        if name not in TIERS:
            raise InvalidError(f"tier {name!r}: unknown; give one of {', '.join(TIERS)}")
        return (sum(tier.hits for tier in self.tiers if tier.name == name) / self.rows if self.rows
                else float("nan"))


def read_stats(memory: Owned) -> Stats:
    """Of an open store."""
    found = c.rung_store_stats()
    check(lib.rung_store_stats(memory, byref(found)))
    values = {each.name: getattr(found, each.name) for each in fields(Stats)}
    tiers = found.tiers[: found.tier_count]
    values.update(
        tiers=tuple(Tier(text(tier.name), tier.rows, tier.hits, tier.bytes) for tier in tiers),
        engine=text(found.engine), engine_why=text(found.engine_why),
        cache_why=text(found.cache_why), direct=bool(found.direct), latency=tuple(found.latency),
        phases={name: tuple(found.phases[i]) for i, name in enumerate(PHASES)})
    return Stats(**values)
