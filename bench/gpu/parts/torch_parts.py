# SPDX-License-Identifier: Apache-2.0
"""The parts of torch_epoch.py. Each runs in a separate process and prints its results, one JSON
object per line. The expected rows are computed from their vertices. Rows on the GPU are compared on
the GPU."""
import hashlib
import json
import subprocess
import sys

from torch_order import capture, streams
from torch_run import SKIPPED, Run, Skip, Wrong, check, emit, rows_of
from torch_train import epoch, interference

# ---- (e) processes ----------------------------------------------------------------------------

def lists_of(run, count, rows=4):
    """Lists of ids, the same in each process. They contain the first and the last vertex, and some
    ids twice."""
    import numpy as np   # pylint: disable=import-outside-toplevel
    for seed in range(rows):
        ids = np.random.default_rng(seed).integers(0, count, run.args.batch_rows)
        ids[:2] = 0, count - 1
        yield ids


def digests(run, store):
    """Digests of the rows of each list, gathered on the GPU if torch has one."""
    torch, found = run.torch, []
    on_gpu = run.cuda and torch is not None and torch.cuda.is_available()
    for ids in lists_of(run, len(store)):
        if on_gpu:
            rows = store.gather(torch.from_numpy(ids).cuda()).cpu().numpy()
        else:
            rows = store.gather(ids)
        found.append(hashlib.sha256(rows.tobytes()).hexdigest())
    return found, on_gpu


def attached(run):
    """Attach to the store of processes(), in a separate process."""
    with run.rung.attach(run.args.share) as store:
        found, on_gpu = digests(run, store)
        hits = {tier.name: tier.hits for tier in store.stats().tiers}
        emit(digests=found, on_gpu=on_gpu, hits=hits, device=store.device)


def processes(run):
    import numpy as np   # pylint: disable=import-outside-toplevel
    with run.open(share=True) as store:
        wanted = [hashlib.sha256(rows_of(np, ids, run.width).tobytes()).hexdigest()
                  for ids in lists_of(run, len(store))]
        own, on_gpu = digests(run, store)
        command = [sys.executable, "-B", *sys.argv, "--run", "attached",
                   "--share", store.share_path]
        others = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True) for _ in range(2)]
        said = [other.communicate() for other in others]
    for other, (_, errors) in zip(others, said):
        check(other.returncode == 0, f"an attached process failed: {errors.strip()[-300:]}")
    results = [json.loads(out) for out, _ in said]
    emit(device=store.device, torch_on_gpu=on_gpu, lists=len(wanted), rows=run.args.batch_rows,
         attached=[{key: result[key] for key in ("device", "on_gpu", "hits")}
                   for result in results])
    check(own == wanted, "the process that opened the store has wrong rows")
    for result in results:
        check(result["digests"] == wanted, "an attached process has wrong rows")


# ---- the parts by name ------------------------------------------------------------------------

PARTS = {"streams": streams, "capture": capture, "epoch": epoch, "interference": interference,
         "processes": processes, "attached": attached}


def run_part(args):
    try:
        PARTS[args.run](Run(args))
        return 0
    except Skip as reason:
        print(reason, file=sys.stderr)
        return SKIPPED
    except Wrong as what:
        print(what, file=sys.stderr)
        return 1
