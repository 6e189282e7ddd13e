# SPDX-License-Identifier: Apache-2.0
"""GPU options without a GPU (an existing GPU is hidden from CUDA): the CPU gathers and the command
prints the reason, or it exits with 77."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from clitest import CliTest, Graph, main

WHY = r"(cuda: looking for GPUs: .+ \(cudaError\w+\)|device cuda is not built in: .+)"


class WithoutGpu(CliTest):
    def setUp(self):
        super().setUp()
        self.variables = {"CUDA_VISIBLE_DEVICES": "-1"}
        self.staged = self.stage(Graph(self.folder, vertices=3000))

    def test_the_cpu_gathers_and_one_line_gives_the_reason(self):
        for args in (["--gpu", "10%"], ["--gpu", "max"], ["--gpu", "0"], ["--peers", "2"],
                     ["--gpus", "0,1", "--replicate", "5%"],
                     ["--device", "auto"], ["--device", "auto", "--gpu", "1MiB"]):
            for name, more in (("plan", []), ("bench", ["--rows", "1000", "--check"])):
                with self.subTest([name] + args):
                    done = self.run_rung(name, self.staged, "--host", "40%", *args, *more)
                    self.assertRegex(done.stderr,
                                     r"\Arung %s: gathering on the CPU: %s\n\Z" % (name, WHY))
                    found = self.json_of(name, self.staged, "--host", "40%", *args, *more)
                    self.assertEqual(found["device"], "cpu")
                    self.assertRegex(found["device_why"], r"\A%s\Z" % WHY)
                    self.assertEqual([tier["name"] for tier in found["tiers"]], ["host", "nvme"])
                    if name == "bench":
                        self.assertEqual(found["wrong_rows"], 0)

    def test_without_gpu_options_no_gpu_is_queried(self):
        for args in ([], ["--device", "cpu"]):
            done = self.run_rung("bench", self.staged, "--rows", "1000", *args)
            self.assertEqual(done.stderr, "")
            found = self.json_of("bench", self.staged, "--rows", "1000", *args)
            self.assertEqual({key: found[key]
                              for key in ("device", "device_why", "gpu", "gpu_name", "gpu_count",
                                          "map_on_gpu", "host_waits", "scatters", "attached")},
                             {"device": "cpu", "device_why": None, "gpu": None, "gpu_name": None,
                              "gpu_count": None,
                              "map_on_gpu": None, "host_waits": None, "scatters": None,
                              "attached": False})
            plan = self.json_of("plan", self.staged, "--host", "max", *args)
            self.assertEqual((plan["device"], plan["device_why"], plan["gpus"]), ("cpu", None, []))

    def test_device_cuda_exits_with_77(self):
        for name in ("plan", "bench"):
            for args in ([], ["--gpu", "10%"], ["--peers", "2"], ["--host", "40%"],
                         ["--host", "40%", "--structure", "32KiB"],
                         ["--engine", "pread"] if name == "bench" else []):
                with self.subTest([name] + args):
                    message = self.fails(name, self.staged, "--device", "cuda", *args, code=77,
                                         says="rung %s: " % name)
                    self.assertRegex(message, r"\Arung %s: %s\n\Z" % (name, WHY))


if __name__ == "__main__":
    main()
