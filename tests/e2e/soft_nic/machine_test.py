"""A machine that gives a run too little: its packet thread is throttled, its control thread stands still. What comes out is right all the
same, and where times are not, the verdict says so."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where stage is
import stage  # noqa: E402
from emulated_node import OnEmulatedNode  # noqa: E402

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
ALL_THREADS = 0x40000000  # __WALL: also those that are no child's first one
STANDS, GOES = 0.03, 0.02  # seconds, in turns
STALL = 1


class OneThreadStopped:
    """Of another process, as long as this lasts; its other threads go on."""

    def __init__(self, thread):
        self.thread = thread
        self.system = ctypes.CDLL(None, use_errno=True)

    def trace(self, request):
        none = ctypes.c_void_p(0)
        if self.system.ptrace(ctypes.c_long(request), ctypes.c_long(self.thread), none, none) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace request {request:#x}")

    def __enter__(self):
        self.trace(PTRACE_SEIZE)
        self.trace(PTRACE_INTERRUPT)
        os.waitpid(self.thread, ALL_THREADS)

    def __exit__(self, *_):
        self.trace(PTRACE_DETACH)


class Machine(OnEmulatedNode):
    RATE, SIZES, ITERATIONS = "90Mbit/s", '["4KiB", "1MiB"]', 20  # 1 MiB takes 140 ms

    def begin(self):
        """A run and its real rank; returns the rank."""
        self.start(stage.NETWORK.format(seed=20, tolerance=0.05, idle="sleep", pacing="true", rate=self.RATE, latency="250us",
                                        socket=self.folder / "unused")
                   + stage.RING.format(sizes=self.SIZES, iterations=self.ITERATIONS, payload="exact", more=""))
        rank = self.begun(0, str(stage.Stage.build / "tools/rigs/ring_node/ring_node"), "--peer-next", stage.NEXT, "--peer-prev", stage.PREVIOUS)
        self.addCleanup(rank.stdout.close)
        self.addCleanup(rank.wait)
        self.addCleanup(rank.kill)
        return rank

    def all_right(self, rank):
        """The report of a run whose results are."""
        self.assertIn("Out of bounds values : 0 OK", rank.communicate(timeout=180)[0])
        status = self.emulator.wait(180)
        self.assert_holds()
        report = self.emulator.report()
        job, = report["jobs"]
        self.assertEqual((job["done"], job["planned"], job["failed"]), (job["planned"], job["planned"], False))
        self.assertEqual({size["wrong_elements"] for size in job["sizes"]}, {0})
        return status, report

    def packets(self):
        """That have come to the real rank."""
        counted = subprocess.run(self.cable.command(0, ["cat", "/sys/class/net/soft0/statistics/rx_packets"]), capture_output=True, text=True,
                                 check=True)
        return int(counted.stdout)

    def test_a_throttled_run_is_not_faithful_and_its_results_are_right(self):
        rank = self.begin()
        over = threading.Event()
        process = self.emulator.process.pid

        def throttle():
            while not over.wait(GOES):
                os.kill(process, signal.SIGSTOP)
                time.sleep(STANDS)
                os.kill(process, signal.SIGCONT)

        throttled = threading.Thread(target=throttle)
        throttled.start()
        try:
            rank.wait(180)
        finally:
            over.set()
            throttled.join()
        status, report = self.all_right(rank)
        self.assertEqual(status, stage.NOT_FAITHFUL)
        self.assertTrue([reason for reason in report["verdict"]["reasons"] if "stood still for" in reason], report["verdict"])
        self.assertGreater(max(gap["length_ps"] for gap in report["loop"]["longest_gaps"]), 0.9 * STANDS * 1e12)

    def test_packets_go_on_while_control_stands_still(self):
        rank = self.begin()
        while self.packets() < 300 and rank.poll() is None:  # it is at work
            time.sleep(0.02)
        with OneThreadStopped(self.emulator.process.pid):  # control's is the process's first thread
            before = self.packets()
            time.sleep(STALL)
            passed = self.packets() - before
        self.assertGreater(passed, 300)
        self.all_right(rank)


if __name__ == "__main__":
    stage.main(live=False)
