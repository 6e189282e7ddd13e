# SPDX-License-Identifier: Apache-2.0
"""Batches have the rows of arrays that were staged with `arrays=`."""

import pickle

import numpy as np
import pytest

import rung

VERTICES = 2000


def test_batches_have_the_arrays(tmp_path):
    numbers = np.random.default_rng(3)
    arrays = {"year": np.arange(VERTICES) * 3, "pair": np.arange(2 * VERTICES).reshape(-1, 2)}
    rung.stage(tmp_path / "g", graph=numbers.integers(0, VERTICES, (2, 9000)), arrays=arrays,
               features=numbers.random((VERTICES, 8)), splits={"train": np.arange(300)},
               fanouts=(4, 3), batch_size=128)
    with rung.open(tmp_path / "g", host="40%") as store:
        for batch in rung.Loader(store, arrays="numpy"):
            other = pickle.loads(pickle.dumps(batch))
            for name, array in arrays.items():
                assert np.array_equal(batch.array(name), array[batch.vertices])
                assert np.array_equal(other.array(name), array[batch.vertices])
        with pytest.raises(rung.NotFoundError, match="^name='day': unknown array; use one of "):
            batch.array("day")
        batch = next(iter(rung.Loader(store, arrays="numpy", with_arrays=["pair"])))
        with pytest.raises(rung.NotFoundError, match="use one of pair$"):
            batch.array("year")
        for wrong, says in (("year", r"not a list; use \['year'\]"),
                            (["day"], "'day' is unknown; use ")):
            with pytest.raises(rung.InvalidError, match=f"^with_arrays.*{says}"):
                rung.Loader(store, with_arrays=wrong)
        del batch
