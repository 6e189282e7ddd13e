# SPDX-License-Identifier: Apache-2.0
"""Parts of torch_epoch.py: the order of work on streams, and graph capture."""
import ctypes
import itertools
import time
from collections import deque

from torch_run import Wrong, check, emit, new_graph

IN_FLIGHT = 4      # gathers
CYCLES = 200_000   # of a kernel that only waits: about 100 us, several times a submission


# ---- (a) the order of work on streams ---------------------------------------------------------

def new_stream():
    """A stream created with the driver, as by another library."""
    driver, handle = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    status = driver.cuStreamCreate(ctypes.byref(handle), 1)   # CU_STREAM_NON_BLOCKING
    if status != 0:
        raise Wrong(f"cuStreamCreate: {status}")
    return handle.value


class Order:
    """Gathers with delays on the stream: before the ids are written, before the rows are read, and
    before an earlier reader has read the memory that the rows may reuse. The host waits only to
    bound the number of gathers in flight."""

    def __init__(self, run, store, current, given):
        self.run, self.store, self.torch = run, store, run.torch
        self.current, self.given = current, given
        self.work = given or current   # ids are written and rows are read on this stream
        with self.torch.cuda.stream(self.work):
            self.wrong = self.torch.zeros((), dtype=self.torch.int64, device="cuda")
            self.changed = self.torch.zeros_like(self.wrong)
        self.flights = deque()

    def ids(self):
        count = self.run.args.batch_rows
        with self.torch.cuda.stream(self.work):
            # The allocator can place the rows in this memory next, although its reader has not
            # started yet.
            last = self.torch.full((count, self.run.width), 3.0, device="cuda")
            self.torch.cuda._sleep(CYCLES)   # pylint: disable=protected-access
            self.changed += (last != 3.0).sum()
            return self.torch.randint(len(self.store), (count,), device="cuda")

    def batch(self):
        ids = self.ids()
        gather = self.store.gather_async(ids, stream=self.given)
        with self.torch.cuda.stream(self.work):
            rows = gather.wait_stream()
            self.torch.cuda._sleep(CYCLES)   # pylint: disable=protected-access
            self.wrong += self.run.wrong_rows(rows, ids)
            rows.record_stream(self.work)
        self.flights.append(gather)
        if len(self.flights) > IN_FLIGHT:
            self.flights.popleft().wait()

    def batches(self, count):
        begun = time.monotonic()
        with self.torch.cuda.stream(self.current):
            for _ in range(count):
                self.batch()
            while self.flights:
                self.flights.popleft().wait()
        self.torch.cuda.synchronize()
        found = {"batches": count, "rows": count * self.run.args.batch_rows,
                 "wrong_rows": int(self.wrong), "changed_too_early": int(self.changed),
                 "seconds": time.monotonic() - begun}
        return found


def loader_order(run, store, current):
    """Each batch of a loader is released as soon as the kernels that read it are queued."""
    torch, batches, rows = run.torch, 0, 0
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(current):
        for batch in run.loader(store):
            ids = batch.vertices.cpu().pin_memory().to("cuda", non_blocking=True)
            torch.cuda._sleep(CYCLES)   # pylint: disable=protected-access
            wrong += run.wrong_rows(batch.features, ids)
            batches, rows = batches + 1, rows + len(ids)
            del batch
    torch.cuda.synchronize()
    return {"batches": batches, "rows": rows, "wrong_rows": int(wrong)}


def streams(run):
    torch = run.need()
    default, side = torch.cuda.default_stream(), torch.cuda.Stream()
    external = torch.cuda.ExternalStream(new_stream())
    kinds = {"default": (default, None), "side": (side, None), "external": (external, None),
             "side_given": (default, side), "default_given": (side, default)}
    bad = []
    with run.open() as store:
        for name, (current, given) in kinds.items():
            found = Order(run, store, current, given).batches(run.args.batches)
            emit(**{name: found})
            bad += [name] if found["wrong_rows"] or found["changed_too_early"] else []
        for name, current in (("loader_default", default), ("loader_side", side)):
            found = loader_order(run, store, current)
            emit(**{name: found})
            bad += [name] if found["wrong_rows"] else []
        emit(hits={tier.name: tier.hits for tier in store.stats().tiers})
    check(not bad, f"wrong rows on {', '.join(bad)}")


# ---- (b) graph capture ------------------------------------------------------------------------

def small_step(torch):
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(),
                                torch.nn.Linear(256, 32)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows = torch.randn(512, 256, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=False)
        model(rows).square().mean().backward()
        optimizer.step()
    return step


def capture_beside(run, store, step, side):
    """One capture while gathers are in flight. Returns the number of gathers in flight when it
    began, and the number of wrong rows."""
    torch, count = run.torch, min(run.args.batch_rows * 8, len(store))
    graph = new_graph(torch, step)
    lists = [torch.randint(len(store), (count,), device="cuda") for _ in range(IN_FLIGHT)]
    torch.cuda.synchronize()
    # torch.cuda.graph() collects garbage first, and the gathers would complete in that time
    with torch.cuda.stream(side):
        gathers = [store.gather_async(ids, stream=torch.cuda.default_stream()) for ids in lists]
        in_flight = sum(not gather.done() for gather in gathers)
        graph.capture_begin()
        step()
        graph.capture_end()
        graph.replay()
    wrong = sum(int(run.wrong_rows(gather.wait(), ids)) for ids, gather in zip(lists, gathers))
    torch.cuda.synchronize()
    return in_flight, wrong


def capture(run):
    torch = run.need()
    step, side = small_step(torch), torch.cuda.Stream()
    with run.open() as store:
        found = [capture_beside(run, store, step, side) for _ in range(20)]
        in_flight, wrong = (sum(numbers) for numbers in zip(*found))
        emit(captures=len(found), gathers_in_flight=in_flight, wrong_rows=wrong,
             cold_rows=store.stats().tiers[-1].hits)
        check(wrong == 0, f"{wrong} wrong rows of gathers next to captures")
        check(in_flight > 0, "no gather was in flight when a capture began")
        emit(loader=loader_capture(run, store, step))
        emit(inside=gather_inside(run, store))


def loader_capture(run, store, step):
    """Captures while a loader gathers ahead."""
    torch, captures = run.torch, 0
    for batch in itertools.islice(run.loader(store), 10):
        graph = new_graph(torch, step)
        with torch.cuda.graph(graph):
            step()
        graph.replay()
        captures += len(batch.seeds) > 0
    torch.cuda.synchronize()
    return {"captures": captures}


def gather_inside(run, store):
    """A gather inside a capture is refused, and the capture remains valid."""
    torch, refused = run.torch, None
    ids = torch.randint(len(store), (run.args.batch_rows,), device="cuda")
    numbers = torch.zeros(8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        try:
            store.gather_async(ids)
        except run.rung.Error as error:
            refused = f"{type(error).__name__}: {error}"
        numbers += 1
    check(refused, "a gather was accepted inside a capture")
    graph.replay()
    check(float(numbers.sum()) == 8.0, "the capture lost work")
    check(int(run.wrong_rows(store.gather(ids), ids)) == 0, "wrong rows after a refusal")
    return {"refused": refused}
