# SPDX-License-Identifier: Apache-2.0
"""Seeds that are listed several times in a batch, as weighted samplers draw them."""

import numpy as np
import pytest
from conftest import same

import rung


@pytest.mark.parametrize("fanouts", [(), (3, 2), (-1,)])
def test_repeated_seeds_have_a_row_each(store, staged, fanouts):
    """The batch has for each what a batch of the distinct seeds has."""
    seeds = np.array([70, 3, 70, 70, 2999, 3])
    loader = rung.Loader(store, seeds, fanouts=fanouts, batch_size=6, shuffle=False,
                         arrays="numpy")
    once = next(iter(rung.Loader(store, seeds[[0, 1, 4]], fanouts=fanouts, batch_size=3,
                                 shuffle=False, arrays="numpy")))
    batch = next(iter(loader))
    assert batch.seeds.tolist() == batch.vertices[:6].tolist() == seeds.tolist()
    assert batch.vertices[6:].tolist() == once.vertices[3:].tolist()
    first = [0, 1, 0, 0, 2, 1]
    assert same(batch.features[:6], once.features[first])
    assert same(batch.labels, once.labels[first])
    if fanouts:
        block, one = batch.blocks[-1], once.blocks[-1]   # hop 0
        for at, other in enumerate(first):
            assert np.array_equal(
                batch.vertices[block.indices[block.indptr[at] : block.indptr[at + 1]]],
                once.vertices[one.indices[one.indptr[other] : one.indptr[other + 1]]])
    found = rung.NeighborSampler(rung.Dataset(staged.path), fanouts or (2,)).sample(seeds)
    assert found.vertices[:6].tolist() == seeds.tolist() and found.seed_count == 6
