#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.index_select on the GPU over rows of the same widths and batches as rung_gpu_bench's gathers; one JSON object a line."""
import argparse
import json
import statistics
import sys

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
WARMUPS, LISTS = 2, 4


def size(text):
    return int(text[:-3]) * UNITS[text[-3:]] if text[-3:] in UNITS else int(text)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=size, default=size("1GiB"))
    parser.add_argument("--batch-bytes", type=size, default=size("256MiB"))
    parser.add_argument("--row-bytes", type=lambda text: [int(n) for n in text.split(",")], default=[512, 1024, 1200, 2048, 4096])
    parser.add_argument("--samples", type=int, default=9)
    return parser.parse_args()


def measure(torch, args, row_bytes):
    """Between two events on the stream, behind a kernel that is still running: as rung_gpu_bench times."""
    count = args.size // row_bytes
    rows = args.batch_bytes // row_bytes
    table = torch.randint(-1 << 31, (1 << 31) - 1, (count, row_bytes // 4), dtype=torch.int32, device="cuda")
    lists = [torch.randperm(count, device="cuda")[:rows] for _ in range(LISTS)]
    out = torch.empty((rows, row_bytes // 4), dtype=torch.int32, device="cuda")
    seconds = []
    for turn in range(WARMUPS + args.samples):
        begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(400_000)
        begun.record()
        torch.index_select(table, 0, lists[turn % LISTS], out=out)
        ended.record()
        ended.synchronize()
        seconds.append(begun.elapsed_time(ended) / 1e3)
    wrong = int((out != table[lists[(WARMUPS + args.samples - 1) % LISTS]]).any(dim=1).sum())
    seconds = sorted(seconds[WARMUPS:])
    median = statistics.median(seconds)
    return {"benchmark": "index_select", "row_bytes": row_bytes, "rows": rows, "wrong_rows": wrong, "torch": torch.__version__,
            "seconds": {"median": median, "min": seconds[0], "max": seconds[-1], "samples": seconds},
            "rows_per_s": rows / median, "bytes_per_s": 2 * rows * row_bytes / median}


def main():
    args = parse_args()
    try:
        import torch
    except ImportError as missing:
        print(f"index_select.py: skipped: {missing}", file=sys.stderr)
        return 77
    if not torch.cuda.is_available():
        print("index_select.py: skipped: torch sees no GPU", file=sys.stderr)
        return 77
    bad = 0
    for row_bytes in args.row_bytes:
        result = measure(torch, args, row_bytes)
        bad += result["wrong_rows"]
        print(json.dumps(result), flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
