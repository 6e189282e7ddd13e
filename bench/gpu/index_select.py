#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.index_select on the GPU, with tables, rows and batches of the same sizes as the part
`table` of rung_gpu_bench. Prints one JSON object per line."""
import argparse
import json
import statistics
import sys

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
WARMUPS, LISTS = 2, 4
FILL_ROWS = 1 << 20   # at a time: torch's random numbers need additional memory


def size(text):
    return int(text[:-3]) * UNITS[text[-3:]] if text[-3:] in UNITS else int(text)


def sizes(text):
    return [size(word) for word in text.split(",")]


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table-bytes", type=sizes, default=sizes("1GiB,8GiB,32GiB,64GiB"))
    parser.add_argument("--batch-bytes", type=size, default=size("256MiB"))
    parser.add_argument("--row-bytes", type=sizes, default=sizes("512,1024,4096"))
    parser.add_argument("--samples", type=int, default=9)
    return parser.parse_args()


def fill(table):
    for first in range(0, len(table), FILL_ROWS):
        part = table[first : first + FILL_ROWS]
        part.random_(-1 << 31, (1 << 31) - 1)


def measure(torch, args, flat, row_bytes):
    """Timed between two events on the stream, after a kernel that is still running when the host
    submits: rung_gpu_bench times its plain kernel in the same way."""
    count = flat.numel() * 4 // row_bytes
    rows = args.batch_bytes // row_bytes
    table = flat[: count * row_bytes // 4].view(count, row_bytes // 4)
    lists = [torch.randint(count, (rows,), device=flat.device) for _ in range(LISTS)]
    out = torch.empty((rows, row_bytes // 4), dtype=torch.int32, device=flat.device)
    seconds = []
    for turn in range(WARMUPS + args.samples):
        begun = torch.cuda.Event(enable_timing=True)
        ended = torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(400_000)   # pylint: disable=protected-access
        begun.record()
        torch.index_select(table, 0, lists[turn % LISTS], out=out)
        ended.record()
        ended.synchronize()
        seconds.append(begun.elapsed_time(ended) / 1e3)
    last = lists[(WARMUPS + args.samples - 1) % LISTS]
    wrong = int((out != table[last]).any(dim=1).sum())
    seconds = sorted(seconds[WARMUPS:])
    median = statistics.median(seconds)
    return {"benchmark": "index_select", "table_bytes": flat.numel() * 4, "row_bytes": row_bytes,
            "rows": rows, "wrong_rows": wrong, "torch": torch.__version__,
            "seconds": {"median": median, "min": seconds[0], "max": seconds[-1],
                        "samples": seconds},
            "rows_per_s": rows / median, "bytes_per_s": 2 * rows * row_bytes / median}


def measure_table(torch, args, table_bytes):
    """Yields a result for each width. The output, and the rows to compare it with, need memory as
    well as the table."""
    if torch.cuda.mem_get_info()[0] < table_bytes + 4 * args.batch_bytes:
        yield {"benchmark": "index_select", "table_bytes": table_bytes, "wrong_rows": 0,
               "skipped": "the GPU has no room for it and a batch"}
        return
    flat = torch.empty(table_bytes // 4, dtype=torch.int32, device="cuda")
    fill(flat.view(-1, 1024))
    for row_bytes in args.row_bytes:
        yield measure(torch, args, flat, row_bytes)
    del flat
    torch.cuda.empty_cache()


def main():
    args = parse_args()
    try:
        import torch   # pylint: disable=import-outside-toplevel
    except ImportError as missing:
        print(f"index_select.py: skipped: {missing}", file=sys.stderr)
        return 77
    if not torch.cuda.is_available():
        print("index_select.py: skipped: torch sees no GPU", file=sys.stderr)
        return 77
    bad = 0
    for table_bytes in args.table_bytes:
        for result in measure_table(torch, args, table_bytes // 4096 * 4096):
            bad += result["wrong_rows"]
            print(json.dumps(result), flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
