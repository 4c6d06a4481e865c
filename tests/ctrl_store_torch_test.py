#!/usr/bin/env python3
"""PyTorch itself (Debian's python3-torch, 1.13, on the CPU) as one of four ranks, emulated ranks as
the others: its TCPStore, its rendezvous, its barriers, its torchrun. It speaks the oldest generation
of the store's protocol; of the newer ones tests/ctrl_peers_store_test.cc has byte scripts.

    ctrl_store_torch_test.py build/tests/store_ranks

Skipped (status 77) where there is no torch; with it, 630 MB: apt-get install python3-torch."""
import importlib.util
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
WORLD = 4
UNIQUE_ID = bytes.fromhex("8877665544332211" "0200b7980a090001" + "00" * 112)

# One real rank. A stub backend takes NCCL's part: its first rank publishes an id in the store that
# the backend is given, others read it there.
RANK = r'''
import datetime, sys
import torch.distributed as dist

ids = []

class Stub(dist.ProcessGroup):
    pass

def make(store, rank, size, timeout):
    if rank == 0:
        store.set("0", bytes.fromhex(sys.argv[1]))
    ids.append(store.get("0"))
    return Stub(rank, size)

dist.Backend.register_backend("stub", make)
minute = datetime.timedelta(seconds=60)
dist.init_process_group("stub", timeout=minute)
print("id", ids[0].hex())
store = dist.distributed_c10d._get_default_store()
text, count, other = ("%s of %d" % (name, dist.get_rank()) for name in ("text", "count", "other"))
store.set(text, "of rank %d" % dist.get_rank())
print("get", store.get(text).decode())
print("add", store.add(count, 5), store.add(count, -2))
store.wait([text, count], minute)
print("keys", store.num_keys() > 0, store.delete_key(text), store.delete_key(text))
print("set", store.compare_set(other, "", "first").decode(), store.compare_set(other, "x", "y").decode())
try:
    store.wait(["never"], datetime.timedelta(milliseconds=100))
except RuntimeError as error:
    print("wait ends", "Timeout" in str(error))
if len(sys.argv) > 2:
    dist.new_group(list(range(int(sys.argv[2]))), timeout=minute)
    print("group", ids[1].hex())
dist.destroy_process_group()
print("done")
'''
SAID = ["get of rank %d", "add 5 3", "keys True True False", "set first first", "wait ends True", "done"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class TorchStore(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.script = pathlib.Path(directory.name) / "rank.py"
        self.script.write_text(RANK)
        self.port = free_port()

    def emulated(self, *real):
        process = subprocess.Popen(
            [STORE_RANKS, f"127.0.0.1:{self.port}", str(WORLD), *map(str, real)],
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        return process

    def real(self, rank, *arguments, launcher=()):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(WORLD),
                           MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.port),
                           OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        process = subprocess.Popen(
            [sys.executable, *launcher, str(self.script), UNIQUE_ID.hex(), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        self.addCleanup(process.kill)
        return process

    def finish(self, process):
        output, _ = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 0, output)
        return output.replace("[default0]:", "")  # torchrun's

    def check_rank(self, output, rank, identifier):
        self.assertIn(f"id {identifier}\n", output)
        for line in SAID:
            self.assertIn((line % rank if "%" in line else line) + "\n", output)

    def launcher(self, node_rank):
        return ("-m", "torch.distributed.run", "--nnodes", str(WORLD), "--nproc_per_node", "1",
                "--monitor_interval", "0.1", "--node_rank", str(node_rank), "--master_addr", "127.0.0.1",
                "--master_port", str(self.port), 
                # With Python 3.11 this release takes no other values than 1 and 2.
                "--redirects", "1", "--tee", "1", "--log_dir", str(self.script.parent))

    def test_rank_0_is_real_and_a_second_group_follows(self):
        emulated = self.emulated(0)  # comes first: the store is waited for
        output = self.finish(self.real(0, "2"))
        self.check_rank(output, 0, UNIQUE_ID.hex())
        self.assertIn(f"group {UNIQUE_ID.hex()}\n", output)
        learned = self.finish(emulated)
        self.assertIn("torch 2.0 or earlier", learned)
        self.assertIn(f"learned 0 0 {UNIQUE_ID.hex()}\n", learned)
        self.assertIn(f"learned 1 0 {UNIQUE_ID.hex()}\n", learned)

    def test_two_real_ranks_with_rank_0(self):
        emulated = self.emulated(0, 2)
        processes = {rank: self.real(rank) for rank in (2, 0)}
        for rank, process in processes.items():
            output = self.finish(process)
            self.assertIn(f"id {UNIQUE_ID.hex()}\n", output)
        self.finish(emulated)

    def test_rank_0_is_emulated(self):
        emulated = self.emulated(3)
        output = self.finish(self.real(3))
        given = self.finish(emulated)
        line = next(line for line in given.splitlines() if line.startswith("gave 0 0 "))
        self.check_rank(output, 3, line.split()[3])

    def test_torchrun_as_node_0(self):
        emulated = self.emulated(0)
        output = self.finish(self.real(0, launcher=self.launcher(0)))
        self.check_rank(output, 0, UNIQUE_ID.hex())
        self.assertIn(f"learned 0 0 {UNIQUE_ID.hex()}\n", self.finish(emulated))

    def test_torchrun_as_node_2_of_an_emulated_master(self):
        emulated = self.emulated(2)
        output = self.finish(self.real(2, launcher=self.launcher(2)))
        given = self.finish(emulated)
        line = next(line for line in given.splitlines() if line.startswith("gave 0 0 "))
        self.check_rank(output, 2, line.split()[3])


if __name__ == "__main__":
    STORE_RANKS = sys.argv.pop(1)
    if importlib.util.find_spec("torch") is None:
        print("skipped: no PyTorch (apt-get install python3-torch, 630 MB)")
        sys.exit(SKIPPED)
    unittest.main()
