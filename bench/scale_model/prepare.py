# SPDX-License-Identifier: Apache-2.0
"""Writes the in-neighbour lists of a generated graph, with edges in both directions, as PyG and
GraphBolt read them: prepare.py DATASET_JSON FOLDER"""
import json
import os
import sys

import numpy as np


def main():
    description, folder = sys.argv[1:]
    with open(description, encoding="utf-8") as file:
        found = json.load(file)
    (vertices,), (edges,) = found["vertex_types"], found["relations"]
    pairs = np.load(os.path.join(os.path.dirname(description), edges["edges"]), mmap_mode="r")
    if edges.get("undirected"):
        sources, destinations = np.concatenate(pairs), np.concatenate(pairs[::-1])
    else:
        sources, destinations = np.array(pairs[0]), np.array(pairs[1])
    indptr = np.zeros(vertices["count"] + 1, np.int64)
    np.cumsum(np.bincount(destinations, minlength=vertices["count"]), out=indptr[1:])
    indices = sources[np.argsort(destinations, kind="stable")]
    np.save(os.path.join(folder, "indptr.npy"), indptr)
    np.save(os.path.join(folder, "indices.npy"), indices.astype(np.int64))


if __name__ == "__main__":
    main()
