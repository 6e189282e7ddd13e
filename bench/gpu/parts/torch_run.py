# SPDX-License-Identifier: Apache-2.0
"""Code shared by the parts of torch_epoch.py: options, rung and torch, expected rows, results."""
import contextlib
import json

SKIPPED = 77
FACTORS = 2654435761, 40503   # of vertex and column; odd, so that all 24 bits depend on both


class Skip(Exception):
    """The part cannot run here. The argument is the reason."""


class Wrong(Exception):
    """A check failed. The argument describes it."""


def rows_of(library, ids, width):
    """The expected rows of vertices, float32 [ids, width], computed by numpy or torch. The values
    are 24 bits scaled to 0..1, which float32 represents exactly."""
    options = {} if library.__name__ == "numpy" else {"device": ids.device}
    columns = library.arange(width, dtype=library.int64, **options)
    bits = (ids.reshape(-1, 1) * FACTORS[0] + columns * FACTORS[1]) & 0xffffff
    if library.__name__ == "numpy":
        return bits.astype("float32") / library.float32(1 << 24)
    return bits.to(library.float32) / (1 << 24)


def emit(**results):
    print(json.dumps(results), flush=True)


def check(ok, what):
    if not ok:
        raise Wrong(what)


class Run:
    """The options of a part, rung, and torch or the reason why it is absent."""

    def __init__(self, args):
        # These modules and torch load the machine's libraries. A librung that is shipped with older
        # copies of them then uses the machine's instead.
        for name in ("ssl", "zlib", "bz2"):
            with contextlib.suppress(ImportError):
                __import__(name)
        self.args, self.cuda, self.width = args, args.device == "cuda", args.row_bytes // 4
        self.torch, self.why_no_torch = None, "torch is not needed"
        if self.cuda or args.run not in ("processes", "attached"):
            try:
                import torch   # pylint: disable=import-outside-toplevel
                self.torch = torch
            except ImportError as error:
                self.why_no_torch = str(error)
        import rung   # pylint: disable=import-outside-toplevel
        self.rung = rung

    def need(self, cuda=True):
        """Returns torch. Skips the part without it, or without a GPU if the part needs one."""
        if self.torch is None:
            raise Skip(self.why_no_torch)
        if cuda and not self.cuda:
            raise Skip("--device cpu: this part needs a GPU")
        if self.cuda and not self.torch.cuda.is_available():
            raise Skip("torch sees no GPU")
        return self.torch

    def open(self, gpu=None, host=None, **options):
        gpu, host = gpu or self.args.gpu, host or self.args.host
        options = {"engine": self.args.engine, **options}
        if not self.cuda:
            return self.rung.open(self.args.data, host=host, **options)
        try:
            return self.rung.open(self.args.data, host=host, gpu=gpu, device="cuda", **options)
        except (self.rung.NoDeviceError, self.rung.NotSupportedError) as error:
            raise Skip(str(error)) from error

    def loader(self, store, **options):
        fanouts = [int(fanout) for fanout in self.args.fanouts.split(",")]
        return self.rung.Loader(store, fanouts=fanouts, batch_size=self.args.batch_size, seed=1,
                                **options)

    def wrong_rows(self, rows, ids):
        """The number of wrong rows, as a tensor: the host does not wait for it."""
        expected = rows_of(self.torch, ids, self.width)
        bits = rows.view(self.torch.int32) != expected.view(self.torch.int32)
        return bits.any(dim=1).sum()


def new_graph(torch, step):
    """A CUDA graph for the capture of a step. The step is warmed up on a side stream first, as
    torch's documentation requires."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    return torch.cuda.CUDAGraph()
