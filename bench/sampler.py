#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares neighbour sampling on the CPU with public samplers, in turn, on the same graph, fanouts,
batches and machine.

Each sampler holds the graph in its own memory and repeatedly samples all batches of an epoch. The
script prints one JSON object on stdout and a table on stderr. GraphBolt, DGL and the sampler of PyG
(torch_sparse) are imported from a Python that has them (--peers); otherwise they are null, with the
reason. bench/README.md describes the timed regions.
"""
import argparse
import json
import os
import sys
import time

from common import (ROOT, Failure, Worker, arxiv, find_graph, missing, numbers, record, rmat,
                    run_main, say, spread, temporary_folder)

# the libraries, each with the module whose presence is checked
LIBRARIES = {"graphbolt": "dgl.graphbolt", "dgl": "dgl", "pyg": "torch_sparse"}
SAME_WORK = 0.02   # tolerance for the edges and vertices of an epoch, whose draws differ


# ---- samplers in Python, with the commands of rung_sampler_rate ----

def graphbolt_sampler(indptr, indices, fanouts):
    """The functions that GraphBolt's NeighborSampler calls for a batch, without its pipeline."""
    import dgl.graphbolt as gb   # pylint: disable=import-outside-toplevel,import-error
    import torch   # pylint: disable=import-outside-toplevel,import-error
    graph = gb.fused_csc_sampling_graph(torch.from_numpy(indptr), torch.from_numpy(indices))
    layers = [torch.LongTensor([fanout]) for fanout in fanouts]

    def sample(seeds):
        edges = 0
        for layer in layers:
            drawn = graph.sample_neighbors(seeds, layer).sampled_csc
            edges += drawn.indices.numel()
            seeds, _ = gb.unique_and_compact_csc_formats(drawn, seeds)
        return edges, seeds.numel()
    return sample, indices.dtype


def dgl_sampler(indptr, indices, fanouts):
    import dgl   # pylint: disable=import-outside-toplevel,import-error
    import numpy as np   # pylint: disable=import-outside-toplevel
    import torch   # pylint: disable=import-outside-toplevel,import-error
    wide = torch.from_numpy(indices.astype(np.int64))
    graph = dgl.graph(("csc",
                       (torch.from_numpy(indptr), wide, torch.tensor([], dtype=torch.int64))))
    sampler = dgl.dataloading.NeighborSampler(fanouts[::-1])

    def sample(seeds):
        inputs, _, blocks = sampler.sample_blocks(graph, seeds)
        return sum(block.num_edges() for block in blocks), len(inputs)
    return sample, np.int64


def pyg_sampler(indptr, indices, fanouts):
    """The function that PyG's NeighborSampler calls without pyg-lib. Only new vertices draw."""
    import numpy as np   # pylint: disable=import-outside-toplevel
    import torch   # pylint: disable=import-outside-toplevel,import-error
    import torch_sparse   # noqa: F401  pylint: disable=all
    colptr, row = torch.from_numpy(indptr), torch.from_numpy(indices.astype(np.int64))

    def sample(seeds):
        vertices, edges, _, _ = torch.ops.torch_sparse.neighbor_sample(
            colptr, row, seeds, fanouts, False, True)
        return len(edges), len(vertices)
    return sample, np.int64


def serve(library, folder, fanouts, batch):
    import numpy as np   # pylint: disable=import-outside-toplevel
    import torch   # pylint: disable=import-outside-toplevel,import-error
    fanouts, batch = numbers(fanouts), int(batch)
    make = {"graphbolt": graphbolt_sampler, "dgl": dgl_sampler, "pyg": pyg_sampler}[library]
    sample, id_type = make(np.load(f"{folder}/indptr.npy"), np.load(f"{folder}/indices.npy"),
                           fanouts)
    seeds = torch.from_numpy(np.fromfile(f"{folder}/seeds.bin", np.uint64).astype(id_type))
    batches = seeds.split(batch)
    module = sys.modules[LIBRARIES[library].partition(".")[0]]
    print(f"{module.__name__} {module.__version__}, torch {torch.__version__}", flush=True)
    for order in sys.stdin:
        threads, part, parts = map(int, order.split()[1:])
        torch.set_num_threads(threads)
        begun = time.perf_counter()
        edges, vertices = map(sum, zip(*[sample(one) for one in batches[part::parts]]))
        print(f"{time.perf_counter() - begun:.9f} {edges} {vertices}", flush=True)


# ---- graphs ----

def write_csc(folder, vertices, edges, train, both_directions, seed):
    """Writes in-neighbour lists and the shuffled seeds of an epoch."""
    import numpy as np   # pylint: disable=import-outside-toplevel
    sources, targets = edges
    if both_directions:
        sources, targets = np.concatenate([sources, targets]), np.concatenate([targets, sources])
    indptr = np.zeros(vertices + 1, np.int64)
    np.cumsum(np.bincount(targets, minlength=vertices), out=indptr[1:])
    np.save(f"{folder}/indptr.npy", indptr)
    np.save(f"{folder}/indices.npy", sources[np.argsort(targets, kind="stable")].astype(np.int32))
    train = train.astype(np.uint64)
    np.random.default_rng(seed).shuffle(train)
    train.tofile(f"{folder}/seeds.bin")


def make_graph(args, name, folder):
    """Writes the files of a graph to the folder. Returns its description."""
    import numpy as np   # pylint: disable=import-outside-toplevel
    if name != "arxiv":
        graph = rmat(int(name[len("rmat"):]), args.seed, folder)
        edges, train = np.load(graph["edges"]), np.load(graph["train"])
        os.unlink(graph["edges"])
        os.unlink(graph["train"])
        write_csc(folder, graph["vertices"], edges, train, False, args.seed)
        return graph["name"]
    path = find_graph(args.arxiv)
    if not path:
        raise Failure("arxiv.npz was not found; use --arxiv, or leave it out of --graphs")
    with np.load(path) as file:
        write_csc(folder, arxiv(path)["vertices"], file["edge_index"], file["train_idx"], True,
                  args.seed)
    return "ogbn-arxiv, both directions, its own train split"


# ---- the race ----

class Contestant:
    """Samples an epoch by a command to each of its workers; {part} in the command is the worker's
    number."""

    def __init__(self, workers, order, draws):
        # different draws give slightly more or fewer
        self.workers, self.order, self.draws = workers, order, draws

    def run(self):
        """(seconds, edges, vertices)"""
        begun = time.perf_counter()
        for part, worker in enumerate(self.workers):
            worker.begin(self.order.format(part=part))
        answers = [[float(word) for word in worker.answer().split()] for worker in self.workers]
        seconds = answers[0][0] if len(self.workers) == 1 else time.perf_counter() - begun
        return seconds, sum(answer[1] for answer in answers), sum(answer[2] for answer in answers)


def open_contestants(args, folder, fanouts, absent):
    """({name: {threads: sampler}}, workers, versions). Each of several processes gets its share of
    the batches."""
    program = Worker([os.path.join(args.programs, "rung_sampler_rate"),
                      f"csc:{folder}/indptr.npy,{folder}/indices.npy",
                      f"{folder}/seeds.bin", ",".join(map(str, fanouts)), str(args.batch)])
    program.answer()
    workers, versions, contestants = [program], {}, {}
    for name, order, draws in (("rung", "sample {} any all", "all"),
                               ("rung, in order", "sample {} ordered all", "all"),
                               ("rung, one batch at a time", "single {} all", "all"),
                               ("rung, new draw", "sample {} any new", "new")):
        contestants[name] = {threads: Contestant([program], order.format(threads), draws)
                             for threads in args.threads}
    for library in LIBRARIES:
        if library in absent:
            continue
        mine = [Worker([args.peers, "-B", os.path.abspath(__file__), "--serve", library, folder,
                        ",".join(map(str, fanouts)), str(args.batch)])
                for _ in range(max(args.threads))]
        versions[library] = [worker.answer() for worker in mine][0]
        workers += mine
        draws = "new" if library == "pyg" else "all"
        contestants[library] = {threads: Contestant(mine[:1], f"sample {threads} 0 1", draws)
                                for threads in args.threads}
        if max(args.threads) > 1:
            contestants[f"{library}, processes"] = {threads: Contestant(mine[
                :threads], f"sample 1 {{part}} {threads}", draws)
                                                    for threads in args.threads if threads > 1}
    return contestants, workers, versions


def race(args, contestants):
    """{name: {threads: [(seconds, edges, vertices)]}}. Every second round runs in reverse order;
    the first is dropped as a warm-up."""
    turns = [(name, threads) for threads in args.threads for name in contestants
             if threads in contestants[name]]
    samples, dropped = {name: {threads: [] for threads in by} for name,
                        by in contestants.items()}, 0 if args.small else 1
    for idx in range(args.rounds + dropped):
        for name, threads in turns if idx % 2 == 0 else reversed(turns):
            samples[name][threads].append(contestants[name][threads].run())
    return {name: {threads: runs[dropped:] for threads, runs in by.items()} for name,
            by in samples.items()}


def check_work(contestants, samples, tolerance):
    """Checks that all samplers drew the same amount, except for chance."""
    for draws in ("all", "new"):
        found = {(name, threads): run for name, by in samples.items() for threads,
                 runs in by.items() for run in runs
                 if contestants[name][threads].draws == draws}
        for what in (1, 2):
            amounts = [run[what] for run in found.values()]
            if amounts and max(amounts) > min(amounts) * (1 + tolerance):
                raise Failure(f"not the same work: "
                              f"{({key: run[1:] for key, run in found.items()})}")


def measure(args, folder, name, fanouts, absent):
    contestants, workers, versions = open_contestants(args, folder, fanouts, absent)
    samples = race(args, contestants)
    wrong = int(workers[0].order("check"))
    for worker in workers:
        worker.close()
    if wrong:
        raise Failure(f"{wrong} edges that are not in the graph")
    check_work(contestants, samples, 10 * SAME_WORK if args.small else SAME_WORK)
    return {"graph": name, "fanout": fanouts, "batch": args.batch, "wrong_edges": wrong,
            "versions": versions, "absent": absent,
            **figures(args, samples)}


def against(rates, name, threads):
    """rung's speed relative to each other sampler with the same number of threads and the other's
    best variant, computed per round."""
    ways = [way for way in (name, f"{name}, processes") if threads in rates.get(way, {})]
    best = max(ways, key=lambda way: spread(rates[way][threads])["median"])
    own = rates["rung, new draw" if name == "pyg" else "rung"][threads]
    return {"as": best, **spread([mine / theirs for mine,
                                  theirs in zip(own, rates[best][threads])])}


def figures(args, samples):
    rates = {name: {threads: [edges / seconds for seconds, edges, _ in runs] for threads,
                    runs in by.items()} for name, by in samples.items()}
    _, edges, vertices = samples["rung"][args.threads[0]][0]
    result = {"edges": edges, "vertices": vertices,
              "edges_per_s": {name: {threads: {**spread(values), "samples": values} for threads,
                                     values in by.items()}
                              for name, by in rates.items()},
              "times_as_fast_as": {name: {threads: against(rates, name, threads)
                                          for threads in args.threads} if name in rates else None
                                   for name in LIBRARIES}}
    for name, by in result["edges_per_s"].items():
        say(f"  {name:26}" + "".join(f" {entry['median'] / 1e6:8.2f} M edges/s, {threads} thr."
                                     for threads, entry in by.items()))
    for name, by in result["times_as_fast_as"].items():
        ratios = [f" {ratio['median']:.1f} ({ratio['min']:.1f} to {ratio['max']:.1f}), {threads} "
                  "thr." for threads, ratio in (by or {}).items()]
        say(f"  rung / {name:19}" + ("".join(ratios) or " null"))
    return result


def lists(text):
    return [numbers(part) for part in text.split(":")]


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", default=os.path.join(ROOT, "build", "rung"),
                        help="the command (default: build/rung)")
    parser.add_argument("--programs",
                        help="folder of rung_sampler_rate (default: bench/ next to the command)")
    parser.add_argument("--peers", metavar="PYTHON", default=sys.executable,
                        help="a Python with torch, dgl and torch_sparse (default: this one)")
    parser.add_argument("--dir", help="folder for the temporary folder (default: $TMPDIR)")
    parser.add_argument("--arxiv",
                        help="arxiv.npz (default: in $RUNG_TEST_DATA, or next to the checkout)")
    parser.add_argument("--graphs", type=lambda text: text.split(","),
                        default=["arxiv", "rmat20", "rmat22"],
                        help="arxiv, rmatSCALE (default: arxiv,rmat20,rmat22)")
    parser.add_argument("--fanouts", type=lists, default=[[25, 10], [15, 10, 5]],
                        help="hop 0 first (default: 25,10:15,10,5)")
    parser.add_argument("--batch", type=int, default=1024, help="seeds per batch (default: 1024)")
    parser.add_argument("--threads", type=numbers, default=[1, 2], help="default: 1,2")
    parser.add_argument("--rounds", type=int, default=9, help="rounds that count (default: 9)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true",
                        help="try the script in a few seconds; the results are meaningless")
    args = parser.parse_args()
    if args.small:
        args.graphs, args.fanouts, args.batch, args.rounds = ["rmat14"], [[5, 3]], 64, 1
    args.programs = args.programs or os.path.join(os.path.dirname(args.rung), "bench")
    return args


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--serve":
        serve(*sys.argv[2:])
        return 0
    args = parse_args()
    # otherwise DGL asks, and writes a file to the home folder
    os.environ.setdefault("DGLBACKEND", "pytorch")
    if missing(sys.executable, "numpy"):
        raise Failure(f"{sys.executable} has no numpy; install python3-numpy, or run this with a "
                      "Python that has it")
    absent = {name: why for name,
              library in LIBRARIES.items() if (why := missing(args.peers, library))}
    for name, why in absent.items():
        say(f"without {name}: {why}")
    with temporary_folder(args.dir) as folder:
        out = record("sampler", "sampler.py", args.rung)
        out["results"] = []
        for graph in args.graphs:
            name = make_graph(args, graph, folder)
            for fanouts in args.fanouts:
                say(f"{name}: fanout {fanouts}, batch {args.batch}")
                out["results"].append(measure(args, folder, name, fanouts, absent))
    print(json.dumps(out, indent=1))
    return 0


if __name__ == "__main__":
    run_main("sampler.py", main)
