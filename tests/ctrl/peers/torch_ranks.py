"""PyTorch itself (Debian's python3-torch, 1.13, on the CPU) as real ranks of a job of four, and
store_ranks as the emulated ones: what tests of PyTorch's store and of torchrun share."""
import importlib.util
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # where extent is
from extent import only_in_full  # noqa: E402,F401

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


class TorchRanks(unittest.TestCase):
    store_ranks = None  # the program
    seconds = 100  # that a process may take

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.script = pathlib.Path(directory.name) / "rank.py"
        self.script.write_text(RANK)
        self.port = free_port()

    def emulated(self, *real):
        process = subprocess.Popen(
            [self.store_ranks, f"127.0.0.1:{self.port}", str(WORLD), *map(str, real)],
            stdout=subprocess.PIPE, text=True)
        self.look_after(process)
        return process

    def look_after(self, process):
        timer = threading.Timer(self.seconds, process.kill)
        timer.start()
        self.addCleanup(timer.cancel)
        for stream in (process.stdin, process.stdout):
            if stream:
                self.addCleanup(stream.close)
        self.addCleanup(process.wait)
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

    def given(self, emulated):
        """The id that emulated rank 0 has made."""
        said = self.finish(emulated).splitlines()
        return next(line for line in said if line.startswith("gave 0 0 ")).split()[3]


def main():
    TorchRanks.store_ranks = sys.argv.pop(1)
    if importlib.util.find_spec("torch") is None:
        print("skipped: no PyTorch (apt-get install python3-torch, 630 MB)")
        sys.exit(SKIPPED)
    unittest.main()
