"""What `run` says of RoCE while a job of NCCL starts, and when."""

import subprocess
import time

import stage
from nccl_job import Job


class SelfTest(Job):
    """What `run` says of RoCE while a job starts."""

    ANSWERED = "self-test: gpu (10.9.0.1) answers all 3 emulated addresses"
    PASSED = "self-test: RoCE passes between gpu (10.9.0.1) and "

    def begin(self, tables=""):
        """A run whose real node answers by TCP; its RoCE meets the faults of `tables`."""
        emulator = self.start(self.config(28, 4, tables=tables), "--linger", "60s", "--control", str(self.folder / "control"))
        node = self.node()
        self.wait(emulator, self.ANSWERED, 10)
        return emulator, node

    def wait(self, emulator, line, seconds):
        """Until the run says so; returns the seconds that it took."""
        start = time.monotonic()
        while line not in emulator.log.read_text():
            self.assertLess(time.monotonic() - start, seconds, emulator.log.read_text())
            time.sleep(0.05)
        return time.monotonic() - start

    def play(self, node):
        rank = subprocess.Popen(node.command("/mnt/nccl_rank_node /mnt/run.toml --id /mnt/id"), stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)
        self.addCleanup(rank.stdout.close)
        self.addCleanup(rank.wait)
        self.addCleanup(rank.kill)
        return rank

    def status(self):
        return subprocess.run([self.understudy, "status", str(self.folder / "control")], capture_output=True, text=True,
                              check=True).stdout

    def test_linux_answers_for_each_emulated_address(self):
        emulator, node = self.begin()
        took = self.wait(emulator, self.PASSED + "3 emulated addresses", 5)
        print(f"answered after {took:.2f} s")
        self.assertIn(self.PASSED + "3 emulated addresses", self.status())
        node.stop()
        emulator.stop()
        self.assertNotIn("RDMA-CM", emulator.log.read_text())
        self.assert_holds(emulator.capture)

    def test_lost_packets_are_named_while_tcp_works(self):
        emulator, node = self.begin('[[fault]]\naction = "drop"\n')
        took = self.wait(emulator, "answers no REQ of RDMA-CM yet", 5)
        self.assertIn("0 of 3 emulated addresses have an answer", self.status())
        rank = self.play(node)
        packets = self.wait(emulator, "and none has come back: TCP between the same addresses works", 20)
        print(f"REQs without an answer: named after {took:.2f} s, packets {packets:.2f} s after the rank's start")
        self.assertIn("has acknowledged no RoCE packet yet", self.status())
        self.assertIsNone(rank.poll())
        self.assertNotIn("a queue pair has failed", emulator.log.read_text())

    def test_packets_pass_where_no_communication_manager_answers(self):
        emulator, node = self.begin('[[fault]]\naction = "drop"\npackets = "cm"\n')
        self.wait(emulator, "answers no REQ of RDMA-CM yet", 5)
        self.play(node)
        self.wait(emulator, self.PASSED + "queue pairs of the job", 20)


if __name__ == "__main__":
    stage.main()
