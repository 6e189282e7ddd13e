# SPDX-License-Identifier: Apache-2.0
"""Mistakes that mypy and pyright must report, each on a line that ends with `# error`. If a type
were Any, its mistake would pass."""

import pathlib

import torch

import rung
import rung.distributed

store = rung.open(pathlib.Path("papers.rung"), host="4GiB")
store.gather(5.5)   # error
store.gather([1, 2], rank=True)   # error
print(store.fetures)   # error
rung.opne("papers.rung")   # error
rung.open("papers.rung", hots="4GiB")   # error
rung.stage("papers.rung", feature=torch.empty(3, 3))   # error
rows: int = store.gather(torch.arange(3))   # error
number: str = store.gather_async([1, 2]).wait()   # error
for batch in rung.Loader(store, "train"):
    print(batch.fetures)   # error
    batch.blocks[0].edges()   # error
    size: str = batch.features   # error
    batch.features.numpyy()   # error
rung.Loader(store, fanout=(5, 5))   # error
rung.FeatureStore(5)   # error
rung.Feature("papers.rung")   # error
print(rung.Dataset("papers.rung").splits.train)   # error
print(store.stats().hit_rate)   # error
rung.Loader(store).load_state_dict(5)   # error
position: str = rung.Loader(store).state_dict()   # error
rung.distributed.open(5)   # error
