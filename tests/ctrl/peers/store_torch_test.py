#!/usr/bin/env python3
"""PyTorch itself (Debian's python3-torch, 1.13, on the CPU) as one of four ranks, emulated ranks as
the others: its TCPStore, its rendezvous, its barriers, its torchrun. It speaks the oldest generation
of the store's protocol; of the newer ones tests/ctrl/peers/store_test.cc has byte scripts.

    ctrl_peers_store_torch_test.py build/tests/store_ranks

Skipped (status 77) where there is no torch; with it, 630 MB: apt-get install python3-torch."""
import importlib.util
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
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
stores = []

class Stub(dist.ProcessGroup):
    pass

def make(store, rank, size, timeout):
    if rank == 0:
        store.set("0", bytes.fromhex(sys.argv[1]))
    ids.append(store.get("0"))
    stores.append(store)
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
for group in sys.argv[2:]:
    known = len(ids)
    if ":" in group:  # a send to an emulated rank or from one: NCCL's two ranks take this key
        low, high = (int(rank) for rank in group.split(":"))
        if dist.get_rank() == low:
            stores[0].set(group, bytes.fromhex(sys.argv[1]))
        if dist.get_rank() in (low, high):
            ids.append(stores[0].get(group))
    else:
        dist.new_group([int(rank) for rank in group.split(",")], timeout=minute)
    if len(ids) > known:
        print("group", group, ids[-1].hex())
dist.destroy_process_group()
print("done", flush=True)
sys.stdin.readline()
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
        self.look_after(process)
        return process

    def look_after(self, process):
        timer = threading.Timer(100, process.kill)
        timer.start()
        self.addCleanup(timer.cancel)
        self.addCleanup(process.kill)

    def real(self, rank, *arguments, launcher=()):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(WORLD),
                           MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.port),
                           OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        process = subprocess.Popen(
            [sys.executable, *launcher, str(self.script), UNIQUE_ID.hex(), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=environment)
        self.look_after(process)
        return process

    def until(self, process, text):
        """What it says up to and with a line that has `text`."""
        output = ""
        while text not in output:
            line = process.stdout.readline()
            self.assertNotEqual(line, "", f"no \"{text}\" in:\n{output}")
            output += line
        return output

    def finish(self, process):
        """What it says from now on, once it may end."""
        output, _ = process.communicate("\n" if process.stdin else None)
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
        emulated = self.emulated(0, "0,1")  # comes first: the store is waited for
        real = self.real(0, "0,1")
        learned = self.until(emulated, f"learned 1 0 {UNIQUE_ID.hex()}\n")
        self.assertIn("torch 2.0 or earlier", learned)
        self.assertIn(f"learned 0 0 {UNIQUE_ID.hex()}\n", learned)
        output = self.finish(real)
        self.check_rank(output, 0, UNIQUE_ID.hex())
        self.assertIn(f"group 0,1 {UNIQUE_ID.hex()}\n", output)
        self.finish(emulated)

    GROUPS = ["0,1", "1,3", "2,3", "0,1,2,3"]  # of new_group(), in its order

    def test_groups_and_pairs_of_an_emulated_store(self):
        emulated = self.emulated(3, *self.GROUPS)
        output = self.finish(self.real(3, *self.GROUPS, "0:3", "2:3"))
        said = self.finish(emulated)
        for group, key in (("1,3", "2 0"), ("2,3", "3 0"), ("0,1,2,3", "4 0"), ("0:3", "0 0:3"),
                           ("2:3", "0 2:3")):
            gave = next(line for line in said.splitlines() if line.startswith(f"gave {key} "))
            self.assertIn(f"group {group} {gave.split()[3]}\n", output)
        self.assertNotIn("gave 1 0", said)

    def test_groups_and_pairs_of_a_real_store(self):
        emulated = self.emulated(0, 2, *self.GROUPS)
        arguments = (*self.GROUPS, "1:2", "2:3", "0:3")
        processes = {rank: self.real(rank, *arguments) for rank in (2, 0)}
        output = {rank: self.until(process, "done") for rank, process in processes.items()}
        for process in processes.values():
            self.finish(process)
        said = self.finish(emulated)
        # Real ranks' ids are found; those of groups whose first rank is emulated are there before.
        for key in ("1 0", "3 0", "4 0", "0 2:3", "0 0:3"):
            self.assertIn(f"learned {key} {UNIQUE_ID.hex()}", said)
        gave = next(line for line in said.splitlines() if line.startswith("gave 0 1:2 "))
        self.assertIn(f"group 1:2 {gave.split()[3]}\n", output[2])
        for rank, group in ((0, "0,1"), (2, "2,3"), (0, "0,1,2,3"), (2, "0,1,2,3")):
            self.assertIn(f"group {group} {UNIQUE_ID.hex()}\n", output[rank])

    def test_two_real_ranks_with_rank_0(self):
        emulated = self.emulated(0, 2)
        processes = {rank: self.real(rank) for rank in (2, 0)}
        said = {rank: self.until(process, "done") for rank, process in processes.items()}
        for rank, process in processes.items():
            self.finish(process)
            self.check_rank(said[rank], rank, UNIQUE_ID.hex())
        self.finish(emulated)

    def test_rank_0_is_emulated(self):
        emulated = self.emulated(3)
        output = self.finish(self.real(3))
        self.check_rank(output, 3, self.given(emulated))

    def given(self, emulated):
        """The id that emulated rank 0 has made."""
        said = self.finish(emulated).splitlines()
        return next(line for line in said if line.startswith("gave 0 0 ")).split()[3]

    def test_torchrun_as_node_0(self):
        emulated = self.emulated(0)
        real = self.real(0, launcher=self.launcher(0))
        self.until(emulated, f"learned 0 0 {UNIQUE_ID.hex()}\n")
        self.check_rank(self.finish(real), 0, UNIQUE_ID.hex())
        self.finish(emulated)

    def test_torchrun_as_node_2_of_an_emulated_master(self):
        emulated = self.emulated(2)
        output = self.finish(self.real(2, launcher=self.launcher(2)))
        self.check_rank(output, 2, self.given(emulated))


if __name__ == "__main__":
    STORE_RANKS = sys.argv.pop(1)
    if importlib.util.find_spec("torch") is None:
        print("skipped: no PyTorch (apt-get install python3-torch, 630 MB)")
        sys.exit(SKIPPED)
    unittest.main()
