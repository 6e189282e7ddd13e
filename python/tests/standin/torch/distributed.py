# SPDX-License-Identifier: Apache-2.0
"""torch.distributed: the processes of RANK and WORLD_SIZE communicate through a folder."""

import os
import pickle
import time
import types

_turn = 0
distributed_c10d = types.SimpleNamespace(_get_default_store=lambda: None)   # as with MPI


def _folder():
    return os.environ.get("STANDIN_GROUP")


def is_available():
    return _folder() is not None


is_initialized = is_available


def get_rank():
    return int(os.environ["RANK"])


def get_world_size():
    return int(os.environ["WORLD_SIZE"])


def all_gather_object(objects, own):
    """Gather the objects of all ranks; waits for all ranks."""
    global _turn
    _turn += 1
    name = os.path.join(_folder(), f"{_turn}-")
    with open(name + f"{get_rank()}.new", "wb") as out:
        pickle.dump(own, out)
    os.rename(name + f"{get_rank()}.new", name + str(get_rank()))
    for rank in range(get_world_size()):
        while not os.path.exists(name + str(rank)):
            time.sleep(0.01)
        with open(name + str(rank), "rb") as file:
            objects[rank] = pickle.load(file)


def barrier():
    all_gather_object([None] * get_world_size(), None)
