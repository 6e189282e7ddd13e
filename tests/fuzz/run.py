# SPDX-License-Identifier: Apache-2.0
"""run.py TARGET PROGRAM FOLDER [--fuzz [OPTION...]]: write the seeds to FOLDER/seeds-TARGET and run
the program on them: the replay, or with --fuzz libFuzzer for RUNG_FUZZ_SECONDS (20) with the given
options. New inputs that it finds stay in FOLDER/corpus-TARGET for the next run. An input that ends
the program is stored as FOLDER/found-TARGET-*. Standard library only."""
import os
import subprocess
import sys

import corpus

ONE_INPUT_SECONDS = 20
MEMORY_MIB = 2048


def main():
    target, program, folder = sys.argv[1:4]
    seeds = os.path.join(folder, "seeds-" + target)
    corpus.make(target, seeds)
    if "--fuzz" not in sys.argv:
        return subprocess.run([program, seeds], check=False).returncode
    grown = os.path.join(folder, "corpus-" + target)
    os.makedirs(grown, exist_ok=True)
    command = [program, "-max_total_time=" + os.environ.get("RUNG_FUZZ_SECONDS", "20"),
               "-timeout=%d" % ONE_INPUT_SECONDS,
               "-rss_limit_mb=%d" % MEMORY_MIB, "-print_final_stats=1", "-verbosity=0",
               "-artifact_prefix=%s" % os.path.join(folder, "found-%s-" % target),
               *sys.argv[5:], grown, seeds]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
