#!/usr/bin/env python3
"""PyTorch's own torchrun (Debian's python3-torch, 1.13, on the CPU) with its c10d rendezvous, on one
or two of four nodes; emulated agents are on the others. Who serves the rendezvous' store, and whether
node 0 is real, is drawn through; workers are restarted; mistakes are named.

    rendezvous_torch_test.py build/tests/store_ranks

Skipped (status 77) where there is no torch."""
import re

from torch_ranks import UNIQUE_ID, WORLD, TorchRanks, main, only_in_full

# Each attempt has an id of its own; the first one fails once it knows it.
ATTEMPT = r'''
import os, sys
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
sys.argv[1] = "9" + attempt + sys.argv[1][2:]
'''
FAILS_ONCE = r'''
if attempt == "0":
    sys.exit(1)
'''


class C10dRendezvous(TorchRanks):
    seconds = 240  # three programs import PyTorch one after the other

    def emulated(self, *arguments):
        return super().emulated(*arguments, f"seconds={self.seconds}")

    def torchrun(self, is_host, *more, nnodes=WORLD, processes=1, identity="job"):
        return self.real(0, launcher=(
            "-m", "torch.distributed.run", "--nnodes", str(nnodes), "--nproc_per_node", str(processes),
            "--monitor_interval", "0.1", "--rdzv_backend", "c10d", "--rdzv_endpoint", f"127.0.0.1:{self.port}",
            "--rdzv_id", identity, "--rdzv_conf", f"is_host={is_host}", *more,
            # With Python 3.11 this release takes no other values than 1 and 2.
            "--redirects", "1", "--tee", "1", "--log_dir", str(self.script.parent)))

    def of_node(self, output, node):
        """Its rank does what it does beside a store, and its agent ends in good order."""
        for line in (f"get of rank {node}", "add 5 3", "done"):
            self.assertIn(line + "\n", output)
        self.assertNotIn("Traceback", output)

    def test_the_rendezvous_is_emulated_and_node_0_real(self):
        emulated = self.emulated(0, "host=1")
        self.of_node(self.finish(self.torchrun(0)), 0)
        self.assertIn(f"learned 0 0 {UNIQUE_ID.hex()}\n", self.finish(emulated))

    def test_the_rendezvous_is_real_and_node_0_emulated(self):
        emulated = self.emulated(3, "host=3")
        output = self.finish(self.torchrun(1))
        self.of_node(output, 3)
        self.assertIn(f"id {self.given(emulated)}\n", output)

    @only_in_full
    def test_two_real_nodes(self):
        emulated = self.emulated(0, 2, "host=0")
        processes = [self.torchrun(1), self.torchrun(0)]
        for process in processes:  # each ends once the other's ranks have
            process.stdin.write("\n")
            process.stdin.flush()
        output = "".join(self.finish(process) for process in processes)
        for node in (0, 2):
            self.of_node(output, node)
        self.assertEqual(output.count(f"id {UNIQUE_ID.hex()}\n"), 2)
        self.finish(emulated)

    def restarted(self, host, node):
        self.script.write_text(ATTEMPT + self.script.read_text() + FAILS_ONCE)
        emulated = self.emulated(node, f"host={host}", "rounds=2")
        output = self.finish(self.torchrun(int(host == node), "--max_restarts", "1"))
        said = self.finish(emulated)
        self.of_node(output, node)
        self.assertEqual(output.count("done\n"), 2, output)
        self.assertRegex(said, re.compile(r"round 0: 4 nodes; node rank \d is .*restarted.*round 1: 4 nodes|"
                                          r"round 0: 4 nodes; node rank \d is .*round 1: 4 nodes.*restarted", re.S))
        return output, said

    def test_node_0_has_both_stores_and_its_workers_are_restarted(self):
        output, said = self.restarted(0, 0)
        for attempt in "01":
            identity = "9" + attempt + UNIQUE_ID.hex()[2:]
            self.assertIn(f"id {identity}\n", output)
            self.assertIn(f"learned 0 0 {identity}\n", said)

    @only_in_full
    def test_both_stores_are_emulated_and_workers_are_restarted(self):
        output, said = self.restarted(0, 1)
        for gave in re.findall("gave 0 0 (.*)", said):
            self.assertIn(f"id {gave}\n", output)
        self.assertEqual(said.count("gave 0 0"), 2)

    def mistake(self, words, status=1, **torchrun):
        emulated = self.emulated(2, "host=0")
        self.torchrun(0, **torchrun)
        said = self.until(emulated, words)
        if status:
            emulated.communicate()
            self.assertEqual(emulated.returncode, status, said)

    @only_in_full
    def test_another_number_of_processes(self):
        self.mistake("torchrun is to have --nproc-per-node 1", processes=2)

    def test_another_identity(self):
        self.mistake("--rdzv-id is to be run_id", status=0, identity="other")


if __name__ == "__main__":
    main()
