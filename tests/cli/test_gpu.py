# SPDX-License-Identifier: Apache-2.0
"""plan and bench on simulated GPUs: every mix of tiers returns the right rows, each from the tier
of its rank, whatever order CUDA works in."""
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import SIM, CliTest, Graph, main, read_npy, shape_of

VERTICES, ROW_BYTES = 3000, 64
THREADS = 80   # more than the engine of a store starts by itself
# host budget: the minimum of slots and a third of the rows
SOME = "%dB" % (4 * 4096 + 1000 * ROW_BYTES)

# name: (variables of the simulated machine, options)
MIXES = {
    "host": ({}, ["--gpu", "0", "--host", "max"]),
    "host and file": ({}, ["--gpu", "0", "--host", SOME]),
    "GPU": ({}, ["--gpu", "max"]),
    "GPU, host and file": ({}, ["--gpu", "20%", "--host", SOME]),
    "GPU and file": ({}, ["--gpu", "20%", "--host", "16KiB"]),
    "one GPU posing as three": ({}, ["--gpus", "0,0,0", "--gpu", "16%", "--replicate", "3%",
                                     "--host", SOME]),
    "peers": ({"RUNG_SIM_GPUS": "2"}, ["--peers", "2", "--gpu", "max"]),
    "peers, host and file": ({"RUNG_SIM_GPUS": "2"},
                             ["--peers", "2", "--gpu", "20%", "--host", SOME]),
    "replicas, peers, host and file": ({"RUNG_SIM_GPUS": "3"},
                                       ["--gpus", "2,0", "--gpu", "20%", "--replicate", "8%",
                                        "--host", SOME]),
    "replicas only": ({"RUNG_SIM_GPUS": "2"}, ["--peers", "2", "--gpu", "20%", "--replicate", "max",
                                               "--host", SOME]),
}


def uniform(count, below, seed):
    """Return the ranks of --ids uniform: the upper half of splitmix64 times `below`."""
    ranks, state, low = [], seed, 2 ** 64 - 1
    for _ in range(count):
        state = (state + 0x9e3779b97f4a7c15) & low
        x = ((state ^ (state >> 30)) * 0xbf58476d1ce4e5b9) & low
        x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & low
        ranks.append(((x ^ (x >> 31)) * below) >> 64)
    return ranks


class GpuTest(CliTest):
    command = SIM

    def setUp(self):
        super().setUp()
        if not SIM:
            self.skipTest("RUNG_SIM names no command on simulated GPUs")
        self.graph = Graph(self.folder, vertices=VERTICES, edges=6000, row_bytes=ROW_BYTES)
        self.staged = self.stage(self.graph)

    def machine(self, **variables):
        self.variables = {"RUNG_SIM_GPUS": "1", **variables}

    def check(self, found, ranks):
        """Check that no row is wrong and that each tier served exactly its own ranks."""
        self.assertEqual(found["wrong_rows"], 0)
        first = 0
        for tier in found["tiers"]:
            end = first + tier["rows"]
            self.assertEqual(tier["hits"], sum(first <= rank < end for rank in ranks), tier["name"])
            self.assertEqual(tier["bytes"], tier["hits"] * ROW_BYTES)
            first = end
        self.assertEqual(first, VERTICES)
        self.assertEqual(found["rows"], len(ranks))

    def bench_ranks(self, *args, rows=3000, seed=3):
        found = self.json_of("bench", self.staged, "--ids", "uniform", "--rows", rows, "--seed",
                             seed, "--batch", 500, "--check", *args)
        self.check(found, uniform(rows, VERTICES, seed))
        return found


class Mixes(GpuTest):
    def test_ranks(self):
        # without lists, which are part of --host in plans but not in gathers of uniform ids
        alone = self.stage(self.graph, "alone", graph="none")
        for name, (variables, options) in MIXES.items():
            with self.subTest(name):
                self.machine(**variables)
                plan = self.json_of("plan", alone, "--host", "max", "--fanout", 5,
                                    "--batch", 50, *options)
                found = self.bench_ranks(*options, "--threads", 2)
                self.assertEqual((plan["device"], plan["device_why"]), ("cuda", None))
                self.assertEqual((found["device"], found["gpu"], found["gpu_count"]),
                                 ("cuda", plan["gpus"][0], len(plan["gpus"])))
                self.assertEqual([(tier["name"], tier["rows"]) for tier in found["tiers"]],
                                 [(tier["name"], tier["rows"]) for tier in plan["tiers"]])
                self.assertAlmostEqual(sum(tier["hit_share"] for tier in plan["tiers"]), 1)
                rows = {tier["name"]: tier["rows"] for tier in plan["tiers"]}
                for tier, words in (("gpu", ("GPU", "replicas", "three")),
                                    ("peer", ("peers", "three")),
                                    ("nvme", ("file", "three", "only"))):
                    self.assertEqual(rows[tier] > 0, any(word in name for word in words), tier)
                self.assertEqual(found["scatters"] > 0, rows["nvme"] > 0)

    def test_the_cpu_holds_the_same_ranks_in_memory(self):
        self.machine()
        on_gpu = self.bench_ranks("--gpu", "20%", "--host", SOME)
        on_cpu = self.bench_ranks("--device", "cpu", "--host", SOME)
        self.assertEqual([tier["name"] for tier in on_cpu["tiers"]], ["host", "nvme"])
        self.assertEqual((on_cpu["device"], on_cpu["scatters"]), ("cpu", None))
        self.assertEqual(on_gpu["tiers"][2]["rows"], on_cpu["tiers"][0]["rows"],
                         "the host budget holds as many rows")

    def test_vertex_ids(self):
        rank_of_vertex = read_npy(os.path.join(self.staged, "rank_of_vertex.npy"))[2]
        draws = random.Random(5)
        vertices = [draws.randrange(VERTICES)
                    for _ in range(2500)] + [VERTICES - 1] * 300 + list(range(200))
        ids = self.graph.write("ids.npy", "<i4", (len(vertices),), vertices)
        for name, (variables, options) in MIXES.items():
            with self.subTest(name):
                self.machine(**variables)
                found = self.json_of("bench", self.staged, "--ids", ids, "--batch", 700, "--check",
                                     *options)
                self.check(found, [rank_of_vertex[vertex] for vertex in vertices])
                self.assertIs(found["map_on_gpu"], "0" not in options,
                              "a map of 12000 bytes fits into half of every other budget")

    def test_traces(self):
        for name in ("GPU, host and file", "replicas, peers, host and file"):
            self.machine(**MIXES[name][0])
            found = self.json_of("bench", self.staged, "--rows", 6000, "--in-flight", 3, "--check",
                                 *MIXES[name][1])
            self.assertEqual(found["wrong_rows"], 0)
            self.assertEqual(sum(tier["hits"] for tier in found["tiers"]), found["rows"])

    def test_the_default_budget_uses_all_free_memory(self):
        self.machine(RUNG_SIM_GPU_BYTES=str((1 << 30) + 100 * ROW_BYTES))   # 1 GiB stays free
        plan = self.json_of("plan", self.staged, "--device", "auto", "--host", SOME)
        self.assertEqual(plan["tiers"][0], {**plan["tiers"][0], "name": "gpu", "rows": 100})


class Machines(GpuTest):
    def test_orders_of_work_and_cuda_settings(self):
        options = MIXES["peers, host and file"][1]
        for variables in ({"CUDA_LAUNCH_BLOCKING": "1"}, {"CUDA_DEVICE_MAX_CONNECTIONS": "1"},
                          {"CUDA_DEVICE_MAX_CONNECTIONS": "1", "RUNG_SIM_LAZY": "1"},
                          *({"RUNG_SIM_LAZY": "1", "RUNG_SIM_SEED": seed} for seed in "789")):
            with self.subTest(variables):
                self.machine(RUNG_SIM_GPUS="2", **variables)
                self.bench_ranks(*options, "--threads", 2, "--in-flight", 3, "--batch", 300)

    def test_gpus_without_a_link(self):
        self.machine(RUNG_SIM_GPUS="2", RUNG_SIM_PEERS="0")
        options = ["--peers", "2", "--gpu", "20%", "--replicate", "5%", "--host", SOME]
        why = "GPU 0 cannot read the memory of GPU 1: no rows are shared, GPU 0 is used alone"
        for name, more in (("plan", []), ("bench", ["--rows", "1000"])):
            self.assertEqual(self.run_rung(name, self.staged, *options, *more).stderr,
                             "rung %s: %s\n" % (name, why))
        plan = self.json_of("plan", self.staged, "--host", "max", *options)
        self.assertEqual((plan["device"], plan["device_why"], plan["gpus"]), ("cuda", why, [0]))
        self.assertEqual([tier["rows"] for tier in plan["tiers"]][:2], [VERTICES // 5, 0])
        self.assertEqual(self.bench_ranks(*options)["device_why"], why)

    def test_a_full_gpu_reports_its_free_bytes(self):
        self.machine(RUNG_SIM_GPU_BYTES="100000")
        for args, says in ((["--gpu", "max"],
                            'rows of the tier "gpu" of %d bytes' % (VERTICES * ROW_BYTES)),
                           (["--gpu", "0", "--ids", "uniform", "--rows", "20000", "--warmup", "0"],
                            "an allocation of 160000 bytes"),
                           (["--gpu", "0", "--ids", "uniform", "--rows", "3000", "--warmup", "0"],
                            "not enough memory for the output of all requests")):
            message = self.fails("bench", self.staged, *args, code=1,
                                 says=["GPU 0: not enough memory for ", says])
            self.assertRegex(message, r"\d+ of 100000 bytes are free; set a smaller GPU budget")

    def test_no_gpu(self):
        for variables, why in (({"RUNG_SIM_GPUS": "none"}, "cudaErrorInsufficientDriver"),
                               ({"RUNG_SIM_GPUS": "0"}, "cudaErrorNoDevice")):
            self.machine(**variables)
            self.fails("bench", self.staged, "--device", "cuda", code=77,
                       says=["rung bench: cuda: looking for GPUs: ", why])
            done = self.run_rung("bench", self.staged, "--gpu", "10%", "--rows", "1000", "--check")
            self.assertRegex(done.stderr, r"\Arung bench: gathering on the CPU: cuda: "
                             r"looking for GPUs: .*%s\)\n\Z" % why)
            self.assertIn("checked: 0 wrong rows", done.stdout)

    def test_unknown_gpu_index(self):
        self.machine(RUNG_SIM_GPUS="2")
        for args in (["--gpus", "2"], ["--peers", "3"], ["--gpus", "0,7"]):
            self.fails("plan", self.staged, "--device", "cuda", *args, code=77,
                       says=["does not exist", "CUDA shows 2 GPUs"])
            self.assertIn("gathering on the CPU: cuda: GPU ",
                          self.run_rung("plan", self.staged, *args).stderr)


class Shared(GpuTest):
    """Shared rows: the host tier is shared as memory, the tier "peer" through CUDA IPC handles."""

    def setUp(self):
        super().setUp()
        self.socket = self.path("run", "store")

    def attached(self, *args, code=0):
        return self.json_of("bench", "--attach", self.socket, "--check", *args, code=code)

    def test_an_attached_bench_gathers_the_same_rows(self):
        for name in ("GPU, host and file", "one GPU posing as three",
                     "replicas, peers, host and file"):
            with self.subTest(name):
                self.machine(**MIXES[name][0])
                creator, first = self.share(self.staged, self.socket, "--rows", 1000,
                                            *MIXES[name][1])
                found = self.attached("--ids", "uniform", "--rows", 2000, "--seed", 9)
                self.check(found, uniform(2000, VERTICES, 9))
                self.assertEqual([(tier["name"], tier["rows"]) for tier in found["tiers"]],
                                 [(tier["name"], tier["rows"]) for tier in first["tiers"]])
                self.assertEqual((found["device"], found["attached"], first["attached"]),
                                 ("cuda", True, False))
                creator.terminate()
                self.assertEqual(creator.wait(60), -signal.SIGTERM)

    def test_a_process_without_a_gpu_cannot_attach(self):
        self.machine()
        self.share(self.staged, self.socket, "--rows", 1000, *MIXES["GPU, host and file"][1])
        self.machine(RUNG_SIM_GPUS="0")
        self.fails("bench", "--attach", self.socket, code=77,
                   says=["rung bench: ", "cudaErrorNoDevice"])

    def gathering(self):
        """Start an attached run and wait until it gathers: it has all its threads only then."""
        attacher = self.start("bench", "--attach", self.socket, "--ids", "uniform", "--rows",
                              1 << 22, "--batch", 100, "--quiet", "--threads", THREADS)
        until = time.monotonic() + 60
        while attacher.poll() is None and len(os.listdir("/proc/%d/task" % attacher.pid)) < THREADS:
            self.assertLess(time.monotonic(), until)
        self.assertIsNone(attacher.poll())
        return attacher

    def test_gpu_memory_ends_with_its_process(self):
        self.machine()
        creator, _ = self.share(self.staged, self.socket, "--rows", 1000,
                                *MIXES["one GPU posing as three"][1])
        attacher = self.gathering()
        creator.kill()
        output, message = attacher.communicate(timeout=60)
        self.assertEqual((attacher.returncode, output), (1, ""))
        self.assertRegex(message,
                         "rung bench: .*process that shared the store has closed it or has ended")


class Reports(GpuTest):
    def test_keys_match_those_of_the_cpu(self):
        self.machine()
        forecast = ("gpu_seconds_per_batch", "peer_seconds_per_batch", "link_seconds_per_batch")
        for name, more in (("plan", []), ("bench", ["--rows", "1000", "--check"])):
            on_gpu, on_cpu = (shape_of(self.json_of(name, self.staged, "--host", SOME, *options,
                                                    *more))
                              for options in (["--gpu", "20%"], []))
            self.assertEqual(set(on_gpu), set(on_cpu))
            self.assertEqual({key: on_gpu[key] for key in on_gpu
                              if on_gpu[key] != on_cpu[key] and not key.startswith("engine")},
                             dict(dict.fromkeys(forecast, "number"), gpus=["number"],
                                  threads="null") if name == "plan" else
                             {"gpu": "number", "gpu_name": "text", "gpu_count": "number",
                              "map_on_gpu": "boolean",
                              "host_waits": "number", "scatters": "number"})

    def profile(self, *rungs):
        """Write the profile of a machine with GPU rates of these tiers; return its path."""
        rates = {"gpu": 1e9, "peer": 1e8, "host": 1e7}
        with open(self.path("machine.json"), "w", encoding="utf-8") as out:
            json.dump({"schema": 1, "measured": {},
                       "results": [{"matrix": "gather", "cores": "one", "cpu_node": 0,
                                    "memory_node": 0, "absent": None, "row_bytes": ROW_BYTES,
                                    "rows_per_s": {"median": 1e7}}],
                       "nvme_read": [{"drive": None, "file": "f", "row_bytes": 4096,
                                      "queue_depth": 64, "reads_per_s": 1e12}],
                       "gpu_gather": [{"from": rung, "row_bytes": ROW_BYTES,
                                       "rows_per_s": rates[rung]} for rung in rungs]}, out)
        return self.path("machine.json")

    def test_predicted_seconds_use_the_rate_of_each_tier(self):
        self.machine(RUNG_SIM_GPUS="2")
        options = ["--peers", "2", "--gpu", "20%", "--replicate", "8%", "--host", SOME]
        plan = self.json_of("plan", self.staged, "--host", "max", *options, "--profile",
                            self.profile("gpu", "peer", "host"))
        share = {tier["name"]: tier["hit_share"] for tier in plan["tiers"]}
        rows = plan["rows_per_batch"]
        # of the rows interleaved over two GPUs, some are on the first
        own = plan["gpu_seconds_per_batch"] * 1e9
        peer = plan["peer_seconds_per_batch"] * 1e8
        self.assertAlmostEqual((own + peer) / rows, share["gpu"] + share["peer"], places=6)
        self.assertGreater(own / rows, share["gpu"])
        self.assertGreater(peer, 0)
        self.assertAlmostEqual(plan["link_seconds_per_batch"] * 1e7 / rows,
                               share["host"] + share["nvme"], places=6)
        self.assertEqual((plan["bound"], plan["seconds_per_batch"]),
                         ("link", plan["link_seconds_per_batch"]))
        self.assertEqual(plan["assumed"], [])
        self.assertEqual((plan["threads"], plan["chosen"]["threads"],
                          plan["chosen"]["threads_why"]), (None, None, "a GPU gathers"))
        # limited by the slots that fit into the budget
        self.assertLessEqual(plan["queue_depth"], plan["chosen"]["queue_depth"])
        for rungs in ((), ("gpu",), ("gpu", "host")):
            profile = self.profile(*rungs)
            missing = [rung for rung in ("gpu", "peer", "host") if rung not in rungs]
            self.assertEqual(self.json_of("plan", self.staged, "--host", "max",
                                          *options, "--profile",
                                          profile)["assumed"], missing)
            text = self.run_rung("plan", self.staged, "--host", "max", *options, "--profile",
                                 profile).stdout
            self.assertIn("by the profile %s, which has no rates of GPU reads from %s: they are "
                          "assumed" % (profile, ", ".join(missing)), " ".join(text.split()))
            bench = self.json_of("bench", self.staged, *options, "--rows", 1000, "--profile",
                                 profile)
            self.assertEqual(bench["predicted"]["assumed"], missing)
        assumed = self.json_of("plan", self.staged, "--host", "max", *options)
        self.assertEqual((assumed["assumed"][-2:], assumed["profile"]), (["host", "nvme"], None))
        self.assertGreater(assumed["link_seconds_per_batch"], 0)
        self.assertIn("rates of the machine are assumed",
                      self.run_rung("plan", self.staged, "--host", "max", *options).stdout)

    def test_one_gpu_as_three_reads_its_own_memory(self):
        self.machine()
        plan = self.json_of("plan", self.staged, "--host", "max", "--gpus", "0,0,0", "--gpu",
                            "max", "--profile",
                            self.profile("gpu"))
        self.assertEqual((plan["peer_seconds_per_batch"], plan["link_seconds_per_batch"],
                          plan["assumed"]), (0, 0, []))
        self.assertAlmostEqual(plan["gpu_seconds_per_batch"] * 1e9, plan["rows_per_batch"],
                               places=3)
        self.assertEqual(plan["bound"], "gpu memory")

    def test_text(self):
        self.machine(RUNG_SIM_GPUS="2")
        options = ["--peers", "2", "--gpu", "20%", "--host", SOME]
        self.assertIn("\nGPU 0 gathers; rows are interleaved with GPU 1\n",
                      self.run_rung("plan", self.staged, "--host", "max", *options).stdout)
        text = self.run_rung("bench", self.staged, *options, "--rows", "1000", "--explain").stdout
        self.assertRegex(text,
                         r"\ngathered by GPU 0, simulated GPU; \d+ scatters, the host waited \d+ "
                         r"times\n")
        self.assertRegex(text, r"(?m)^peer +1200 +\d+ +\d")

    def test_check_finds_wrong_rows(self):
        """The GPU keeps the rows it loaded when the store opened; the file changes afterwards."""
        self.machine()
        path = os.path.join(self.staged, next(name for name in os.listdir(self.staged)
                                              if name.startswith("features")))
        size = os.path.getsize(path) - 4096
        with open(path, "r+b") as file, subprocess.Popen(
                [SIM, "bench", self.staged, "--check", "--json", "--quiet", "--gpu", "max", "--ids",
                 "uniform", "--rows", "200000"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env=self.environment()) as bench:
            fill = 0
            while bench.poll() is None:
                fill ^= 0xff
                file.seek(4096)
                file.write(struct.pack("B", fill) * size)
                file.flush()
            message = bench.stderr.read()
            self.assertEqual(bench.returncode, 1, message)
            self.assertRegex(message, r"rung bench: \d+ wrong rows; the first has id \d+")


if __name__ == "__main__":
    main()
