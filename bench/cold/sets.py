# SPDX-License-Identifier: Apache-2.0
"""The graphs whose sampled batches are read, and their staged datasets."""
import array
import io
import os
import random
import zipfile

from common import arxiv, find_graph, rmat, run_text, say, stage_graph

MODEL_VERTICES = 244_160_499 // 64
TRAIN_PERCENT = 10     # of the vertices of debian-docs


def small_graph(folder):
    """A graph for --small: uneven degrees, without numpy."""
    draws, vertices = random.Random(1), 6000
    edges = array.array("I",
                        [int(vertices * draws.random() ** 3)
                         for _ in range(60_000)] + [draws.randrange(vertices)
                                                    for _ in range(60_000)])
    with open(f"{folder}/edges.bin", "wb") as out:
        edges.tofile(out)
    with open(f"{folder}/train.bin", "wb") as out:
        array.array("I", draws.sample(range(vertices), 2048)).tofile(out)
    return {"name": "6000 vertices, 60000 edges from a few of them", "vertices": vertices,
            "edges": f"raw:{folder}/edges.bin,u32,2x60000",
            "train": f"raw:{folder}/train.bin,u32,2048", "directions": {"both directions": True}}


def open_arxiv(args, _):
    path = find_graph(args.graph)
    return arxiv(path) if path else "arxiv.npz was not found; use --graph, or set RUNG_TEST_DATA"


def vertex_count(path):
    """One more than the largest vertex of edge_index, an array of int64."""
    with zipfile.ZipFile(path).open("edge_index.npy") as stored:
        data = io.BytesIO(stored.read())
    data.seek(8)
    data.seek(10 + int.from_bytes(data.read(2), "little"))
    return max(array.array("q", data.read())) + 1


def open_debian_docs(args, folder):
    folders = [args.graphs or "", os.environ.get("RUNG_TEST_DATA", "")]
    paths = [os.path.join(where, "debian-docs.npz") for where in folders if where]
    path = next(filter(os.path.exists, paths), None)
    if not path:
        return "debian-docs.npz was not found; bench/README.md describes it; use --graphs"
    vertices = vertex_count(path)
    count = vertices * TRAIN_PERCENT // 100
    with open(f"{folder}/docs-train.bin", "wb") as out:
        array.array("I", sorted(random.Random(1).sample(range(vertices), count))).tofile(out)
    return {"name": f"debian-docs, {TRAIN_PERCENT} % train vertices", "vertices": vertices,
            "edges": f"{path}:edge_index", "train": f"raw:{folder}/docs-train.bin,u32,{count}",
            "directions": {"both directions": True}}


def open_model(args, folder):
    """The rows are replaced, so the generated ones are as narrow as possible."""
    source = os.path.join(folder, "model")
    if not os.path.exists(source):
        run_text([args.rung, "generate", source, "--model", "mag240m", "--scale", "1/64",
                  "--width", "1", "--quiet"])
    return {"name": "scale model of MAG240M, 1/64", "vertices": MODEL_VERTICES,
            "edges": f"{source}/edges.npy", "train": f"{source}/train.npy",
            "directions": {"both directions": True}}


OPEN = {"arxiv": open_arxiv, "debian-docs": open_debian_docs, "mag240m": open_model}


def open_graph(args, folder, name="arxiv"):
    """The graph of this name, or the reason why it is not available."""
    if args.small:
        return small_graph(folder)
    if args.rmat:
        return rmat(args.rmat, args.seed, folder)
    return OPEN[name](args, folder)


def stage(args, graph, row_bytes, batch, out):
    """Stages a graph in both directions, if it has directions."""
    say(f"staging {graph['name']}, rows of {row_bytes} bytes")
    stage_graph(args.rung, graph, row_bytes, args.score,
                graph["directions"].get("both directions", False), out, "--fanout", args.fanout,
                "--batch", str(batch))
