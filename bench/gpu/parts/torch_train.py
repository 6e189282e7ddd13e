# SPDX-License-Identifier: Apache-2.0
"""Parts of torch_epoch.py: an epoch of GraphSAGE, and a training step next to gathers."""
import contextlib
import itertools
import statistics
import threading
import time
from collections import deque

from torch_run import check, emit, new_graph

# ---- GraphSAGE --------------------------------------------------------------------------------

def make_model(torch, width, hidden, classes, hops):
    """Layers of mean aggregation: PyG's if it is installed, else the same in plain torch."""
    try:
        from torch_geometric.nn import SAGEConv   # pylint: disable=import-outside-toplevel
        kind = "torch_geometric"
    except ImportError:
        kind = "torch"

        class SAGEConv(torch.nn.Module):
            """Equivalent to PyG's, with (sources, destinations) as rows."""

            def __init__(self, width, out):
                super().__init__()
                self.mean = torch.nn.Linear(width, out)
                self.own = torch.nn.Linear(width, out, bias=False)

            def forward(self, rows, edges):
                sources, targets = edges
                count = len(rows[1])
                sums = rows[0].new_zeros(count, rows[0].shape[1])
                sums.index_add_(0, targets, rows[0][sources])
                degree = rows[0].new_zeros(count).index_add_(
                    0, targets, rows[0].new_ones(len(targets)))
                return self.mean(sums / degree.clamp(min=1)[:, None]) + self.own(rows[1])

    class Sage(torch.nn.Module):
        """GraphSAGE (Hamilton et al., 2017)."""

        def __init__(self):
            super().__init__()
            widths = [width] + [hidden] * (hops - 1) + [classes]
            self.layers = torch.nn.ModuleList(SAGEConv(*pair)
                                              for pair in itertools.pairwise(widths))

        def forward(self, rows, edges, counts):
            for idx, layer in enumerate(self.layers):
                rows = layer((rows, rows[: counts[idx]]), edges[idx])
                if idx + 1 < len(self.layers):
                    rows = rows.relu()
            return rows
    return Sage(), kind


class Trainer:
    """A model, and a training step on a batch."""

    def __init__(self, run):
        torch = self.torch = run.torch
        torch.manual_seed(1)
        self.device = "cuda" if run.cuda else "cpu"
        model, self.kind = make_model(torch, run.width, run.args.hidden, 32,
                                      len(run.args.fanouts.split(",")))
        self.model = model.to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.003)

    def step(self, rows, edges, counts, labels):
        loss = self.torch.nn.functional.cross_entropy(
            self.model(rows, edges, counts)[: len(labels)], labels)
        self.optimizer.zero_grad(set_to_none=False)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def inputs(self, batch):
        """The arguments of step(), on the trainer's device."""
        if self.device == "cuda":   # from pageable memory, the copy would wait for the stream
            batch = batch.pin_memory().to("cuda", non_blocking=True)
        return (batch.features, [block.edge_index() for block in batch.blocks],
                [block.dst_count for block in batch.blocks], batch.labels.long().flatten())


# ---- (c) an epoch -----------------------------------------------------------------------------

class Clock:
    """Records the beginning and end of training steps by the GPU's clock."""

    def __init__(self, torch, cuda):
        self.torch, self.cuda, self.pairs = torch, cuda, []

    @contextlib.contextmanager
    def step(self):
        if not self.cuda:
            yield
            return
        pair = [self.torch.cuda.Event(enable_timing=True) for _ in range(2)]
        pair[0].record()
        yield
        pair[1].record()
        self.pairs.append(pair)

    def idle_share(self):
        """The share of the time from the first step's begin to the last step's end in which no step
        ran; None without a GPU."""
        if not self.pairs:
            return None
        whole = self.pairs[0][0].elapsed_time(self.pairs[-1][1])
        return 1 - sum(begun.elapsed_time(ended) for begun, ended in self.pairs) / whole


def one_epoch(run, trainer, loader):
    torch, clock, batches, rows = run.torch, Clock(run.torch, run.cuda), 0, 0
    begun = time.perf_counter()
    for batch in loader:
        inputs = trainer.inputs(batch)
        with clock.step():
            loss = trainer.step(*inputs)
        batches, rows = batches + 1, rows + len(inputs[0])
    if run.cuda:
        torch.cuda.synchronize()
    stats = loader.stats()
    return {"seconds": time.perf_counter() - begun, "idle_share": clock.idle_share(),
            "batches": batches, "rows": rows, "loss": float(loss), "wait_s": stats.wait,
            "wait_rows_s": stats.wait_rows, "wait_sample_s": stats.wait_sample}


COUNTED = ("device_reads", "device_read_bytes", "read_ns", "read_rows", "merged_rows",
           "duplicate_rows", "cache_hits", "joined_rows", "ahead_rows", "host_waits", "scatters")


def epochs(run, store, **options):
    """Runs a warm-up epoch, then the measured ones, and compares the rows of one more batch."""
    torch, trainer = run.torch, Trainer(run)
    loader = run.loader(store, **options)
    one_epoch(run, trainer, loader)
    before = store.stats()
    found = [one_epoch(run, trainer, loader) for _ in range(run.args.epochs)]
    after = store.stats()
    hits = {tier.name: tier.hits - old.hits for tier, old in zip(after.tiers, before.tiers)}
    reads = {name: getattr(after, name) - getattr(before, name) for name in COUNTED}
    batch = next(iter(loader))
    ids = batch.vertices.to(batch.features.device)
    check(int(run.wrong_rows(batch.features, ids)) == 0, "wrong rows in a loader's batch")
    if run.cuda:
        torch.cuda.synchronize()
    seconds = [one["seconds"] for one in found]
    return {"model": trainer.kind, "seconds": {"median": statistics.median(seconds),
                                               "min": min(seconds), "max": max(seconds)},
            "idle_share": found[0]["idle_share"] and statistics.median(
                one["idle_share"] for one in found),
            "verified_rows": len(ids), "hits": hits, "reads": reads, "epochs": found}


def all_ways(run):
    """Tuples of name, options of the store, and options of the loader."""
    share = {"gpu": run.args.gpu, "host": run.args.host}
    if not run.cuda:
        return [("rung", share, {}), ("all_in_host_memory", {"host": "max"}, {})]
    graph, sampled = {"sample_on_gpu": True}, {"sample_on": "gpu"}
    return [("rung", share, {}), ("rung_sample_on_gpu", share | graph, sampled),
            ("all_on_gpu", {"gpu": "max"}, {}),
            ("all_on_gpu_sample_on_gpu", {"gpu": "max"} | graph, sampled),
            ("cpu_gather_and_copy", None, {})]


def ways_of(run):
    """The ways that --ways names."""
    ways = {way[0]: way for way in all_ways(run)}
    names = run.args.ways.split(",") if run.args.ways else list(ways)
    unknown = [name for name in names if name not in ways]
    check(not unknown, f"--ways: unknown way '{', '.join(unknown)}'; use {', '.join(ways)}")
    return [ways[name] for name in names]


def epoch(run):
    torch = run.need(cuda=False)
    bad = []
    for name, options, loader_options in ways_of(run):
        try:
            if options is None:   # gathered by the CPU, pinned, and copied
                store = run.rung.open(run.args.data, host="max", device="cpu")
            else:
                store = run.open(**options)
            with store:
                found = epochs(run, store, **loader_options)
        except (run.rung.Error, torch.cuda.OutOfMemoryError) as error:
            found = {"failed": f"{type(error).__name__}: {error}"[:500]}
            bad.append(name)
        emit(**{name: found})
    check(not bad, f"failed: {', '.join(bad)}")


# ---- (d) interference -------------------------------------------------------------------------

class Feed(threading.Thread):
    """A thread that gathers over the link without pause, two gathers in flight, on a separate
    stream."""

    def __init__(self, run, store):
        super().__init__(daemon=True)
        torch, count = run.torch, min((64 << 20) // run.args.row_bytes, len(store))
        self.torch, self.store, self.bytes_each = torch, store, count * run.args.row_bytes
        self.side, self.ended, self.gathers, self.error = torch.cuda.Stream(), False, 0, None
        self.lists = [torch.randint(len(store), (count,), device="cuda") for _ in range(4)]
        self.outs = [torch.empty((count, run.width), device="cuda") for _ in range(2)]
        torch.cuda.synchronize()

    def run(self):
        flights = deque()
        try:
            for turn in itertools.count():
                if self.ended and not flights:
                    return
                if not self.ended:
                    flights.append(self.store.gather_async(
                        self.lists[turn % 4], self.outs[turn % 2], stream=self.side))
                if len(flights) == 2 or self.ended:
                    flights.popleft().wait()
                    self.gathers += 1
        except Exception as error:   # pylint: disable=broad-exception-caught
            self.error = error       # end() raises it in the part's main thread

    def end(self):
        self.ended = True
        self.join()
        if self.error is not None:
            raise self.error


def step_seconds(torch, replay, count):
    """The seconds of each step, by events on the current stream."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        replay()
        event.record()
    events[-1].synchronize()   # not the whole device, where a feed still runs
    return [a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(events)]


class StaticStep:
    """A training step of GraphSAGE on one batch, as a CUDA graph if it can be captured.

    The graph accesses the batch and the model at fixed addresses, so this object keeps them: torch
    would give their memory to other tensors.
    """

    def __init__(self, run, store):
        self.torch, self.trainer = run.torch, Trainer(run)
        rows, edges, counts, labels = self.trainer.inputs(next(iter(run.loader(store))))
        self.inputs = rows.clone(), [edge.clone() for edge in edges], counts, labels.clone()
        self.torch.cuda.synchronize()
        self.graph = self._captured()

    def _eager(self):
        self.trainer.step(*self.inputs)

    def _captured(self):
        try:
            graph = new_graph(self.torch, self._eager)
            with self.torch.cuda.graph(graph):
                self._eager()
            return graph
        except RuntimeError as error:
            emit(not_captured=str(error)[:300])
            return None

    def __call__(self):
        if self.graph is None:
            self._eager()
        else:
            self.graph.replay()


def beside(run, torch, store, replay, steps):
    """One pair of measurements: the seconds of a step alone, its seconds during gathers, and the
    bytes per second of these gathers over the link."""
    alone = statistics.median(step_seconds(torch, replay, steps))
    feed = Feed(run, store)
    feed.start()
    while feed.gathers < 2 and feed.is_alive():
        time.sleep(0.001)
    before, begun = feed.gathers, time.perf_counter()
    with_feed = statistics.median(step_seconds(torch, replay, steps))
    rate = (feed.gathers - before) * feed.bytes_each / (time.perf_counter() - begun)
    feed.end()
    return alone, with_feed, rate


def feed_alone(run, store, seconds=1.0):
    feed = Feed(run, store)
    feed.start()
    while feed.gathers < 2 and feed.is_alive():
        time.sleep(0.001)
    before, begun = feed.gathers, time.perf_counter()
    time.sleep(seconds)
    rate = (feed.gathers - before) * feed.bytes_each / (time.perf_counter() - begun)
    feed.end()
    return rate


def interference(run):
    torch = run.need()
    with run.open(gpu="0", host="max") as store:
        step = StaticStep(run, store)
        once = statistics.median(step_seconds(torch, step, 20))
        steps = max(20, min(5000, int(1.5 / once)))   # much longer than one gather
        emit(model=step.trainer.kind, cuda_graph=step.graph is not None, steps=steps)
        pairs = [beside(run, torch, store, step, steps) for _ in range(5)]
        slower = sorted(100 * (both / alone - 1) for alone, both, _ in pairs)
        emit(step_seconds_alone=[pair[0] for pair in pairs],
             step_seconds_beside=[pair[1] for pair in pairs],
             slow_down_percent={"median": statistics.median(slower), "min": slower[0],
                                "max": slower[-1]},
             link_bytes_per_s_beside=statistics.median(pair[2] for pair in pairs),
             link_bytes_per_s_alone=feed_alone(run, store))
