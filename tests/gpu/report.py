#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints one JSON object about a run of run.sh: the machine, each step, the results, and their
targets. Exits with 1 if a step failed."""
import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time

FIELDS = ("group", "name", "state", "seconds", "reason", "log", "command")
LOG_LINES = 25   # kept of a failed step: its last lines, and the first ones that match WHY
WHY = re.compile(r"FAIL|CRASH|error|Error|wrong|cuda:|fixture:|simulated CUDA:|=========")


def output_of(*command, cwd=None):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              timeout=30, cwd=cwd, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 and done.stdout.strip() else None


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        model = re.search(r"model name\s*: (.+)", info.read())
    gpus = output_of("nvidia-smi",
                     "--query-gpu=name,driver_version,memory.total,pcie.link.gen.current,"
                     "pcie.link.width.current",
                     "--format=csv,noheader")
    return {"gpus": gpus.splitlines() if gpus else [],
            "cpu": model[1] if model else platform.machine(), "cpus": os.cpu_count(),
            "kernel": platform.release(), "python": platform.python_version()}


def machine_once(path):
    """Cached in `path`: a query takes a second or more, and a report is written after each step."""
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump(machine(), file)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def commit(root):
    """The commit of the checkout, or of the packed tree."""
    packed = os.path.join(root, "COMMIT")
    if os.path.exists(packed):
        with open(packed, encoding="utf-8") as file:
            return file.read().strip() or None
    return output_of("git", "describe", "--always", "--dirty", cwd=root)


def lines_of(text):
    """The results that a benchmark printed. A stopped benchmark may leave a partial line."""
    for line in text.splitlines():
        if line.startswith('{"benchmark"'):
            try:
                yield json.loads(line)
            except ValueError:
                pass


def read_steps(path):
    """The steps that run.sh recorded, the results that the benchmarks printed, and the output of
    rung numa."""
    steps, measured, numa = [], [], None
    with open(path, encoding="utf-8") as file:
        for line in file:
            step = dict(zip(FIELDS, line.rstrip("\n").split("\t", len(FIELDS) - 1)))
            step["command"] = step.get("command", "").replace("\t", " ")
            step["seconds"] = int(step["seconds"])
            log = step.pop("log")
            text = open(log, encoding="utf-8", errors="replace").read() if log else ""
            if step["state"] == "failed":
                lines = text.splitlines()
                step["why"] = [line for line in lines if WHY.search(line)][:LOG_LINES]
                step["output"] = lines[-LOG_LINES:]
            if step["group"] != "start":
                measured += lines_of(text)
            if step["group"] == "numa" and step["state"] == "passed":
                try:
                    numa = json.loads(text)
                except ValueError:
                    step.update(state="failed", reason="its output is not JSON",
                                output=text.splitlines()[-LOG_LINES:])
            steps.append(step)
    return steps, measured, numa


def figures(measured):
    """Every result that has a target, with the target."""
    found = []

    def add(what, line, value, bound, asked):
        found.append({"what": what, "row_bytes": line.get("row_bytes"), "value": value,
                      bound: asked,
                      "reached": value >= asked if bound == "at_least" else value <= asked})
    select = {(line["table_bytes"], line["row_bytes"]): line["rows_per_s"]
              for line in measured if line["benchmark"] == "index_select" and "skipped" not in line}
    for line in measured:
        name = " ".join(str(line[key]) for key in (
            "benchmark", "tier", "host_share", "compute_share", "table_bytes") if key in line)
        for bound in ("at_least", "at_most"):
            if bound in line:
                add(name, line, line["ratio"], bound, line[bound])
        place = (line.get("table_bytes"), line.get("row_bytes"))
        if line["benchmark"] == "table" and place in select:
            add("table over torch.index_select", line, line["rows_per_s"] / select[place],
                "at_least", 1)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--steps", "--machine", "--root", "--command", "--dry-run"):
        parser.add_argument(name, required=True)
    parser.add_argument("--quiet", action="store_true", help="print only the JSON object")
    args = parser.parse_args()
    steps, measured, numa = read_steps(args.steps)
    failed = [step["name"] for step in steps if step["state"] == "failed"]
    aimed = figures(measured)
    print(json.dumps({"benchmark": "gpu",
                      "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                      "commit": commit(args.root), "command": args.command.strip(),
                      "dry_run": args.dry_run == "yes",
                      "machine": machine_once(args.machine), "failed": failed, "steps": steps,
                      "figures": aimed, "measured": measured, "numa": numa}, indent=1))
    if args.quiet:
        return 0
    counts = {state: sum(step["state"] == state for step in steps)
              for state in ("passed", "failed", "skipped", "planned")}
    print(", ".join(f"{count} {state}" for state, count in counts.items() if count),
          file=sys.stderr)
    for figure in aimed:
        bound = "at_least" if "at_least" in figure else "at_most"
        print(f"{'reached' if figure['reached'] else 'MISSED ':8} {figure['what']:45} "
              f"{figure['row_bytes']!s:>6}"
              f" {figure['value']:12.6g}  {bound.replace('_', ' ')} {figure[bound]:g}",
              file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
