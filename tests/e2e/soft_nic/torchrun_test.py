"""The whole of it with PyTorch's own torchrun (Debian's python3-torch, 1.13, on the CPU): its agent meets emulated ones in the c10d rendezvous,
its worker's process groups get NCCL's unique ids through PyTorch's store, and a reference rank on a soft NIC carries out the job and a group's
operations with them. Results are right to the bit."""

import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where stage is
import nccl_job  # noqa: E402
import stage  # noqa: E402
from soft_nic_links import Veth  # noqa: E402

PYTHON = "/usr/bin/python3"  # Debian's, which has Debian's torch
LONGEST = 240  # seconds: two programs import PyTorch one after the other

# A stub backend takes the part of NCCL's: the first rank's program publishes the id, others read it. The reference rank has them in files.
WORKER = r'''
import datetime, os, pathlib, subprocess, sys, time
import torch.distributed as dist

folder, node, config = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
groups = [[int(rank) for rank in group.split(",")] for group in sys.argv[4:]]
names = ["id"]

def make(store, rank, size, timeout):
    path = folder / names[-1]
    if rank == 0:
        while not path.exists():
            time.sleep(0.01)
        store.set("0", path.read_bytes())
    else:
        new = path.with_suffix(".new")
        new.write_bytes(store.get("0"))
        new.rename(path)
    return Stub(rank, size)

class Stub(dist.ProcessGroup):
    pass

dist.Backend.register_backend("stub", make)
program = subprocess.Popen([node, config, "--id", str(folder / "id"), "--group-ids", str(folder / "id"), "--patience", "100"])
minute = datetime.timedelta(seconds=60)
dist.init_process_group("stub", timeout=minute)
print("rank", dist.get_rank(), "of", dist.get_world_size(), flush=True)
for number, group in enumerate(groups):
    names.append("id.%d" % number)
    dist.new_group(group, timeout=minute)
status = program.wait()
dist.destroy_process_group()
sys.exit(status)
'''


def without_torch():
    done = subprocess.run([PYTHON, "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"], check=False)
    return "PyTorch (apt-get install python3-torch, 630 MB)" if done.returncode != 0 else None


class Torchrun(stage.Stage):
    @classmethod
    def setUpClass(cls):
        if why := without_torch() or Veth.missing():
            raise unittest.SkipTest(f"it needs {why}")

    def setUp(self):
        super().setUp()
        # torchrun's agent speaks TCP before any program of its has the NIC open: the kernel's interface has to be there by itself.
        self.link = Veth(stage.NODE_ADDRESS)
        self.addCleanup(self.link.close)
        self.understudy = self.link.understudy(self.build, self.folder)

    def play(self, order, group, host, join):
        """A job of four ranks, and one of a process group of two of them."""
        (self.folder / "worker.py").write_text(WORKER)
        config = self.folder / "run.toml"
        child = (f'groups = [{group}]\n[[job]]\nname = "group"\nchild_of = "nccl"\nmembers = {group}\ncollective = "all_gather"\n'
                 'algorithm = "ring"\nsizes = ["64KiB"]\niterations = 3\n')
        config.write_text(nccl_job.NODES.format(
            emulated=3, idle="sleep", socket=self.socket, collective="all_reduce", algorithm="ring", protocol="simple", sizes='["64KiB", "1MiB"]',
            iterations=2, payload="exact", channels=2, minor=28, order=order, join=join, more=', run_id = "job", torch = "1.13"').replace(
                f"net_vhost0,iface={self.socket},queues=1", Veth.device) + child)
        emulator = self.start(config)
        port = join.rsplit(":", 1)[1].rstrip('"')
        command = [PYTHON, "-m", "torch.distributed.run", "--nnodes", "4", "--nproc_per_node", "1", "--monitor_interval", "0.1", "--rdzv_backend",
                   "c10d", "--rdzv_endpoint", f"{host}:{port}", "--rdzv_id", "job", "--rdzv_conf",
                   f"is_host={int(host == stage.NODE_ADDRESS)}",
                   # With Python 3.11 this release takes no other values than 1 and 2.
                   "--redirects", "1", "--tee", "1", "--log_dir", self.folder, self.folder / "worker.py", self.folder,
                   self.build / "tests/rigs/nccl_rank/nccl_rank_node", config, group.strip("[]").replace(" ", "")]
        try:
            done = subprocess.run(self.link.command(self.build, [str(word) for word in command]), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False, timeout=LONGEST)
        except subprocess.TimeoutExpired as late:
            self.fail((late.stdout or b"").decode() + emulator.log.read_text())
        said = done.stdout
        self.assertEqual(done.returncode, 0, said + emulator.log.read_text())
        operations = [line for line in said.splitlines() if " wrong" in line]
        self.assertEqual((len(operations), [line for line in operations if not line.endswith(", 0 wrong")]), (4 + 3, []), said)
        self.assertIn(emulator.wait(LONGEST), (0, stage.NOT_FAITHFUL))
        jobs = {job["name"]: job for job in self.valid_report(emulator)["jobs"]}
        self.assertEqual({name: (job["planned"], job["done"], job["failed"], job["protocol_violations"]) for name, job in jobs.items()},
                         {"nccl": (4, 4, False, 0), "group": (3, 3, False, 0)}, emulator.log.read_text())
        self.assertNotIn("answered", jobs["nccl"])
        self.assert_holds(emulator.capture, "--open-end")

    def test_emulated_node_serves_the_rendezvous_and_makes_the_ids(self):
        self.play('["w0", "gpu", "w1", "w2"]', "[0, 1]", "10.9.0.2", 'rendezvous = "10.9.0.2:29400"')

    def test_real_node_serves_the_rendezvous_and_makes_the_ids(self):
        self.play('["gpu", "w*"]', "[0, 2]", stage.NODE_ADDRESS, f'rendezvous = "{stage.NODE_ADDRESS}:29400"')


if __name__ == "__main__":
    stage.main(live=False)
