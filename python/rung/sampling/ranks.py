# SPDX-License-Identifier: Apache-2.0
"""Facts that must be the same on all data-parallel ranks: their comparison, which hangs on none."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..dataset import digest
from ..errors import InvalidError

_NAMES_MAX = 4   # hosts or ranks named in a message
_WAIT_S = 30.0   # for the other ranks
_POLL_S = 0.02
_SAME = "pass the same to all ranks"
_CURES = {"version of rung": "install the same on all machines",
          "shuffling by numpy": "install the same numpy on all machines",
          "seeds": "pass all to each rank, or rank=0, world_size=1 with a part",
          **dict.fromkeys(("vertex_ids", "dtype", "batch_size * world_size", "shuffle",
                           "drop_last", "seed"), _SAME)}
_ALONE = "use rank=0, world_size=1 on one rank"
_lock = threading.Lock()   # the steps that number a comparison


def compare(found: Sequence[tuple[str, Mapping[str, str]]]) -> None:
    """Raise InvalidError if the facts of the ranks differ, the same on all ranks.

    Args:
        found: host and facts of each rank; facts are empty on ranks that do not check
    """
    checked = [(rank, host, facts) for rank, (host, facts) in enumerate(found) if facts]
    for name in dict.fromkeys(name for _, _, facts in checked for name in facts):
        values = [facts.get(name, "missing") for _, _, facts in checked]
        most = max(values, key=values.count)   # the first of those that occur most often
        if values.count(most) == len(values):
            continue
        others: dict[str, str] = {}   # by host
        for (rank, host, _), value in zip(checked, values):
            if value != most:
                others.setdefault(host, f"{value} on {host} (rank {rank})")
        shown = list(others.values())[:_NAMES_MAX]
        if len(others) > len(shown):
            shown.append(f"others on {len(others) - len(shown)} more hosts")
        rank, host, _ = checked[values.index(most)]
        cure = _CURES.get(name, "copy the data set of one machine to the others")
        raise InvalidError(f"{name}: {', '.join(shown)}, but {most} on {host} (rank {rank}); "
                           f"{cure}")


def _meet(store: Any, rank: int, world: int, facts: Mapping[str, str]) -> list[Any]:
    """Wait for the same call of all ranks. Return their hosts and facts if they differ, else []."""
    same = digest(json.dumps(facts).encode())
    with _lock:
        number = store.add(f"rung/rank/{rank}", 0) + 1
        store.set(f"rung/{number}/{rank}", json.dumps([os.uname().nodename, facts]))
        store.add(f"rung/{number}/{same}", 1)
        store.add(f"rung/rank/{rank}", 1)
    count = store.add(f"rung/{number}/all", 1)
    end = time.monotonic() + _WAIT_S
    while count < world:   # not store.wait(), which signals cannot interrupt
        if time.monotonic() > end:
            late = [str(other) for other in range(world)
                    if store.add(f"rung/rank/{other}", 0) < number]
            more = ", ..." if len(late) > _NAMES_MAX else ""
            raise InvalidError(f"loader: no epoch on rank {', '.join(late[:_NAMES_MAX])}{more} "
                               f"in {_WAIT_S:.0f} s; {_ALONE}, or a barrier() first")
        time.sleep(_POLL_S)
        count = store.add(f"rung/{number}/all", 0)
    if store.add(f"rung/{number}/{same}", 0) == world:
        return []
    return [json.loads(store.get(f"rung/{number}/{other}")) for other in range(world)]


def agree(facts: Mapping[str, str]) -> None:
    """Compare facts with the other ranks of the default process group, through its store.

    Unlike a collective operation, it ends if some ranks do not call it. The n-th calls of all ranks
    are compared; the store numbers them. A process group without a store (MPI's) compares nothing.

    Raises:
        InvalidError: facts differ, on all ranks; or some ranks did not call it in time, or ended.
    """
    group = sys.modules["torch"].distributed
    store = group.distributed_c10d._get_default_store()   # has no public name
    if store is None:
        return
    try:
        found = _meet(store, group.get_rank(), group.get_world_size(), facts)
    except RuntimeError as error:   # of torch: the rank that has the store has ended
        raise InvalidError("loader: the process group's store has ended, with other ranks; "
                           f"{_ALONE}") from error
    compare(found)
