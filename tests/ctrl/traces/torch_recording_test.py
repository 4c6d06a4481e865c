#!/usr/bin/env python3
"""PyTorch itself (Debian's python3-torch, 1.13, on the CPU) trains on two ranks with DistributedDataParallel and Gloo, and
records one iteration: what is read of it, and the buckets of gradients that this project computes from the shapes.

    torch_recording_test.py UNDERSTUDY DDP_BUCKETS

Skipped (status 77) where there is no torch; with it, 630 MB: apt-get install python3-torch."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
FIRST_CAP, CAP_MB = 1 << 20, 2
WIDTHS = [64, 700, 900, 800, 300, 1000, 10]
RANK = r'''
import pathlib, sys
import torch
import torch.distributed as dist
from torch.autograd import profiler
from torch.profiler import ExecutionGraphObserver

folder, rank, cap = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
widths = [int(width) for width in sys.argv[4:]]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
layers = [torch.nn.Linear(a, b) for a, b in zip(widths, widths[1:])]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=cap)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def iteration():
    optimizer.zero_grad()
    model(torch.ones(4, widths[0])).sum().backward()
    optimizer.step()

for _ in range(2):  # the first one is in one bucket; then they are filled in the order of its gradients
    iteration()
observer = ExecutionGraphObserver()
observer.register_callback(str(folder / f"host{rank}.json"))
with profiler.profile() as profile:
    observer.start()
    iteration()
    observer.stop()
observer.unregister_callback()
profile.export_chrome_trace(str(folder / f"device{rank}.json"))
if rank == 0:
    print(*[parameter.numel() * parameter.element_size() for parameter in model.parameters()])
dist.barrier()
'''


class Recording(unittest.TestCase):
    understudy = ddp_buckets = ""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="understudy-torch-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        environment = dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
        command = [sys.executable, "-c", RANK, str(cls.folder)]
        ranks = []
        for rank in range(2):
            words = [str(word) for word in (rank, CAP_MB, *WIDTHS)]
            ranks.append(subprocess.Popen(command + words, env=environment, text=True, stdout=subprocess.PIPE))
            cls.addClassCleanup(ranks[-1].kill)
        outputs = [rank.communicate(timeout=300)[0] for rank in ranks]
        if any(rank.returncode for rank in ranks):
            raise RuntimeError(f"a rank failed: {outputs}")
        cls.parameters = outputs[0].split()
        cls.hosts = [cls.folder / f"host{rank}.json" for rank in range(2)]
        cls.devices = [cls.folder / f"device{rank}.json" for rank in range(2)]

    def run_it(self, *words):
        done = subprocess.run([self.understudy, "workload", *map(str, words)], capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def expected_buckets(self):
        words = [self.ddp_buckets, str(FIRST_CAP), str(CAP_MB << 20), *self.parameters]
        done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=True)
        return [int(line) for line in done.stdout.split()]

    def test_buckets_are_those_of_the_shapes(self):
        expected = self.expected_buckets()
        self.assertGreater(len(expected), 3)
        self.assertEqual(sum(expected), sum(map(int, self.parameters)))
        for host in self.hosts:
            self.assertEqual(json.loads(self.run_it("stats", host, "--json"))["buckets"], expected)

    def test_every_node_is_read(self):
        for host in self.hosts:
            recorded = json.loads(host.read_text(encoding="utf-8"))["nodes"]
            stats = json.loads(self.run_it("stats", host, "--json"))
            self.assertEqual(stats["nodes"], len(recorded))
            self.assertEqual(stats["names"]["aten::addmm"], len(WIDTHS) - 1)

    def test_imported_traces_are_carried_out(self):
        text = self.run_it("import", *self.hosts, "--device", *self.devices, "--output", self.folder / "job")
        self.assertIn("by name and order in their threads", text)
        network, system = self.folder / "network.yml", self.folder / "system.json"
        network.write_text("topology: [ Ring ]\nnpus_count: [ 2 ]\nbandwidth: [ 50 ]\nlatency: [ 500 ]\n", encoding="utf-8")
        system.write_text('{"preferred-dataset-splits": 4, "local-mem-bw": 1600, "all-reduce-implementation": ["ring"]}', encoding="utf-8")
        expected = {"count": 2 * len(self.expected_buckets()), "bytes": 2 * sum(self.expected_buckets())}
        self.assertEqual(json.loads(self.run_it("stats", self.folder / "job", "--json"))["all"]["collectives"], {"all-reduce": expected})
        for rules in ("feeder1", "feeder3"):
            done = json.loads(self.run_it("replay", self.folder / "job", "--network", network, "--system", system, "--congestion",
                                          "unaware", "--rules", rules, "--json"))
            self.assertGreater(min(rank["finish_ns"] for rank in done["ranks"]), 0)
            self.assertEqual(len(done["ranks"]), 2)


if __name__ == "__main__":
    Recording.ddp_buckets = sys.argv.pop()
    Recording.understudy = sys.argv.pop()
    if importlib.util.find_spec("torch") is None:
        print("skipped: no PyTorch (apt-get install python3-torch, 630 MB)")
        sys.exit(SKIPPED)
    unittest.main()
