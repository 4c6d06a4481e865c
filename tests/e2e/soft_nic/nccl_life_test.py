"""Communicators of NCCL's that come and go while `run` goes on: one after another, by one process or several, and such as end in the middle
of an operation. The real rank is the reference rank on a soft NIC; its results are right to the bit."""

import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where stage is
import nccl_job  # noqa: E402
import stage  # noqa: E402
from soft_nic_links import Vhost  # noqa: E402

LONGEST = 180  # seconds, also on a machine that is busy


class Life(stage.Stage):
    @classmethod
    def setUpClass(cls):
        if why := Vhost.missing():
            raise unittest.SkipTest(f"it needs {why}")

    def configured(self, communicators, minor=28, more="", tables="", order='["gpu", "w*"]', rate="1Gbit/s", join=None, **keys):
        """A configuration of four ranks whose emulated ones join so many communicators."""
        keys = {"algorithm": "ring", "sizes": '["64KiB", "1MiB"]', "channels": 2, "payload": "exact", **keys}
        join = join or f'file = "{self.folder / "id"}"'
        config = self.folder / "run.toml"
        config.write_text(nccl_job.NODES.format(
            emulated=3, idle="sleep", socket=self.socket, collective="all_reduce", protocol="simple", iterations=2,
            minor=minor, order=order, join=join, more=f", communicators = {communicators}{more}", **keys).replace("1Gbit/s", rate) + tables)
        return config

    def begin(self, *words, **keys):
        return self.start(self.configured(*words, **keys), "--control", str(self.folder / "control"))

    def rank(self, emulator, *options):
        command = Vhost(stage.NODE_ADDRESS, self.socket).command(
            self.build, [self.build / "tests/rigs/nccl_rank/nccl_rank_node", emulator.config, *options])
        program = stage.favoured(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        return program

    def assert_verified(self, program, count):
        """It has ended well, with so many operations, all right."""
        try:
            said = program.communicate(timeout=LONGEST)[0]
        except subprocess.TimeoutExpired:
            self.fail((self.folder / "run.log").read_text())
        self.assertEqual(program.returncode, 0, said + (self.folder / "run.log").read_text())
        operations = [line for line in said.splitlines() if line.startswith("all_reduce ")]
        self.assertEqual(len(operations), count, said)
        self.assertEqual([operation for operation in operations if not operation.endswith(", 0 wrong")], [], said)

    def wait_for(self, emulator, words, seconds=LONGEST):
        """The seconds until the run says so."""
        start = time.monotonic()
        while words not in emulator.log.read_text():
            self.assertLess(time.monotonic() - start, seconds, f"{words}:\n{emulator.log.read_text()}")
            time.sleep(0.02)
        return time.monotonic() - start

    def killed_in(self, emulator, operation):
        """A rank that stood in that operation and was killed."""
        program = self.rank(emulator, "--stop", str(operation))
        for line in program.stdout:
            if line.startswith("stands in"):
                break
        self.end(program)

    def end(self, program):
        """SIGKILL; the process is the program itself, which others have started by exec."""
        program.kill()
        program.wait(LONGEST)

    def communicators(self, emulator, done, status=(0, stage.NOT_FAITHFUL)):
        """Those of the report, once it has so many operations done of each."""
        self.assertIn(emulator.wait(LONGEST), status)
        job, = self.valid_report(emulator)["jobs"]
        self.assertEqual([one["done"] for one in job["communicators"]], done, emulator.log.read_text())
        self.assertEqual((job["planned"], job["done"]), (4 * len(done), sum(done)))
        self.assertEqual([one["communicator"] for one in job["collectives"]],
                         [number for number, count in enumerate(done, 1) for _ in range(count)])
        return job["communicators"]

    def fed(self, config, *options):
        """A rank that does what the configuration lists, and tells of it by NCCL's profiler plugin."""
        plugin = self.build / "tools/nccl_profiler/libnccl-profiler-understudy.so"
        command = Vhost(stage.NODE_ADDRESS, self.socket).command(
            self.build, ["env", f"NCCL_PROFILER_PLUGIN={plugin}", "UNDERSTUDY_FEED=10.9.0.2:7300",
                         self.build / "tests/rigs/nccl_rank/nccl_rank_node", config, *options])
        program = stage.favoured(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        return program

    def begin_unlisted(self, communicators=1, **keys):
        """(the run, the configuration of a rank that has operations) of a job that lists none."""
        listed = self.configured(communicators, payload="synthetic", **keys).rename(self.folder / "rank.toml")
        kept = [line for line in listed.read_text().splitlines()
                if not line.startswith(("collective", "sizes", "iterations", "payload", "entry"))]
        config = self.folder / "run.toml"
        config.write_text("\n".join(kept) + '\noperations = "fed"\n')
        return self.start(config), listed

    def test_whatever_a_program_does(self):
        for algorithm in ("ring", "tree"):
            with self.subTest(algorithm=algorithm):
                (self.folder / "id").unlink(missing_ok=True)
                emulator, listed = self.begin_unlisted(algorithm=algorithm)
                program = self.fed(listed)
                said = program.communicate(timeout=LONGEST)[0]
                self.assertEqual(program.returncode, 0, said + emulator.log.read_text())
                self.assertIn(emulator.wait(LONGEST), (0, stage.NOT_FAITHFUL))
                job, = self.valid_report(emulator)["jobs"]
                self.assertEqual((job["planned"], job["done"], job["protocol_violations"], job["fed"]["lost"]), (None, 4, 0, None))
                self.assertEqual([(size["operation"], size["timed"]) for size in job["sizes"]],
                                 [(f"all_reduce {algorithm} simple of 65536 B", 2), (f"all_reduce {algorithm} simple of 1048576 B", 2)])
                self.assert_holds(emulator.capture, "--open-end")

    def test_programs_that_do_different_things_one_after_another(self):
        """Each row is of one kind of operation, whichever communicator it was in."""
        emulator, listed = self.begin_unlisted(2)
        other = self.folder / "other.toml"
        other.write_text(listed.read_text().replace('["64KiB", "1MiB"]', '["1MiB", "256KiB"]'))
        for config in (listed, other):
            program = self.fed(config)
            said = program.communicate(timeout=LONGEST)[0]
            self.assertEqual(program.returncode, 0, said + emulator.log.read_text())
        self.assertIn(emulator.wait(LONGEST), (0, stage.NOT_FAITHFUL))
        job, = self.valid_report(emulator)["jobs"]
        self.assertEqual([(size["operation"], size["size_bytes"], size["timed"]) for size in job["sizes"]],
                         [(f"all_reduce ring simple of {size} B", size, times) for size, times in ((65536, 2), (1048576, 4), (262144, 2))])
        self.assertEqual([(one["communicator"], one["size_bytes"]) for one in job["collectives"]],
                         [(1, 65536)] * 2 + [(1, 1048576)] * 2 + [(2, 1048576)] * 2 + [(2, 262144)] * 2)

    def test_a_program_that_is_killed_at_whatever_it_does(self):
        emulator, listed = self.begin_unlisted(sizes='["64KiB", "8MiB"]', channels=1)
        program = self.fed(listed, "--stop", "3")
        for line in program.stdout:
            if line.startswith("stands in"):
                break
        self.end(program)
        self.wait_for(emulator, " (gpu) has gone in the middle of operation 3 (all_reduce ring simple of 8388608 B)")
        self.assertEqual(emulator.wait(LONGEST), stage.NOT_FAITHFUL)
        job, = self.valid_report(emulator)["jobs"]
        self.assertEqual((job["planned"], job["done"]), (None, 2))

    def test_one_after_another(self):
        """Of one process, then of another; the root is the real rank's or an emulated one's."""
        for minor, order, keys in ((28, '["gpu", "w*"]', {}), (22, '["w0", "gpu", "w1", "w2"]', {}),
                                   (30, '["gpu", "w*"]', {"algorithm": "tree"}),
                                   (25, '["w0", "gpu", "w1", "w2"]', {"join": 'comm_id = "10.9.0.2:5555"'}),
                                   (28, '["gpu", "w*"]', {"join": 'comm_id = "10.9.0.1:5555"'})):
            with self.subTest(release=f"2.{minor}", order=order, **keys):
                (self.folder / "id").unlink(missing_ok=True)
                emulator = self.begin(3, minor, order=order, **keys)
                self.assert_verified(self.rank(emulator, "--communicators", "2"), 8)
                self.assert_verified(self.rank(emulator), 4)
                communicators = self.communicators(emulator, [4, 4, 4])
                self.assertEqual({one["end"] for one in communicators}, {"the real ranks have left the communicator"})
                joined = [one["joined_ps"] for one in communicators]
                self.assertEqual(sorted(joined), joined)
                self.assert_holds(emulator.capture, "--open-end")

    def test_a_rank_that_is_killed(self):
        """In the middle of an operation: `run` says who and what, and takes the next one."""
        for algorithm, order in (("ring", '["gpu", "w*"]'), ("tree", '["w0", "gpu", "w1", "w2"]')):
            with self.subTest(algorithm=algorithm, order=order):
                (self.folder / "id").unlink(missing_ok=True)
                # More messages than may be on their way while the program does nothing: eight of 512 KiB.
                emulator = self.begin(2, algorithm=algorithm, order=order, sizes='["64KiB", "8MiB"]', channels=1)
                self.killed_in(emulator, 3)
                took = self.wait_for(emulator, " (gpu) has gone in the middle of operation 3 of 4 (all_reduce ")
                self.assertIn("; 2 of 4 operations were done; emulated ranks wait for the next one", emulator.log.read_text())
                print(f"{algorithm}: named {took:.2f} s after the kill")
                self.assert_verified(self.rank(emulator), 4)
                killed, right = self.communicators(emulator, [2, 4], status=(stage.NOT_FAITHFUL,))
                self.assertEqual(killed["verdict"], "not faithful")
                self.assertIn("has gone in the middle of operation 3 of 4", killed["end"])
                self.assertEqual(right["end"], "the real ranks have left the communicator")
                self.assertIn(f"job 'nccl', communicator 1: 2 of 4 operations were done: {killed['end']}",
                              self.valid_report(emulator)["verdict"]["reasons"])

    def test_an_abort_and_the_next_one(self):
        """ncclCommAbort, and a new communicator of the same process."""
        emulator = self.begin(2)
        self.assert_verified(self.rank(emulator, "--abort", "3", "--communicators", "2"), 2 + 4)
        aborted, _ = self.communicators(emulator, [2, 4], status=(stage.NOT_FAITHFUL,))
        self.assertIn("has gone in the middle of operation 3 of 4", aborted["end"])

    def test_a_rank_that_is_killed_before_it_has_joined(self):
        """Its unique id is there, and nobody behind it."""
        emulator = self.begin(2)
        program = self.rank(emulator, "--stop-first")
        self.wait_for(emulator, "communicator of 4 ranks, root on gpu")
        self.end(program)
        self.assert_verified(self.rank(emulator), 4)
        self.communicators(emulator, [0, 4], status=(stage.NOT_FAITHFUL,))

    def test_one_only(self):
        """By default the run is over with the first one, and says what a further one needs."""
        emulator = self.begin(1)
        self.assert_verified(self.rank(emulator), 4)
        self.assertIn(emulator.wait(LONGEST), (0, stage.NOT_FAITHFUL))
        job, = self.valid_report(emulator)["jobs"]
        self.assertEqual((job["done"], "communicators" in job), (4, False))
        self.assertIn("the real ranks have left the communicator", emulator.log.read_text())

    def test_two_at_once(self):
        """Of one process: jobs that share a place take its communicators in turn, and operations of both meet on the NICs."""
        communicators = 2  # of each job
        by_file = f'file = "{self.folder / "id"}"'
        for join, inner in ((by_file, ""), ('comm_id = "10.9.0.1:5555"', ""), (by_file, 'inner = "times"\n')):
            with self.subTest(join=join, inner=inner):
                (self.folder / "id").unlink(missing_ok=True)
                second = nccl_job.NODES[nccl_job.NODES.index("[[job]]"):].format(
                    collective="all_reduce", algorithm="ring", protocol="simple", order='["gpu", "w*"]', sizes='["64KiB", "1MiB"]', iterations=2,
                    payload="exact", channels=2, minor=28, join=join, more=f", communicators = {communicators}")
                emulator = self.begin(communicators, join=join, tables=inner + second.replace('"nccl"', '"second"') + inner)
                self.assert_verified(self.rank(emulator, "--at-once", "--communicators", str(communicators)), 8 * communicators)
                self.assertIn(emulator.wait(LONGEST), (0, stage.NOT_FAITHFUL))
                for job in self.valid_report(emulator)["jobs"]:
                    self.assertEqual((job["planned"], job["done"], job["failed"]), (4 * communicators, 4 * communicators, False))
                    # Plans know nothing of each other.
                    self.assertEqual("know nothing of the other jobs" in job.get("not_judged", ""), inner != "", job.get("not_judged"))

    def test_children(self):
        """Communicators that are split off each of two, with jobs of their own, whose operations follow those of their parent."""
        pair = '[[job]]\nname = "pair"\nchild_of = "nccl"\nmembers = "/2"\ncollective = "all_reduce"\nsizes = ["256KiB"]\niterations = 3\n'
        gather = ('[[job]]\nname = "gather"\nchild_of = "nccl"\nmembers = [3, 2, 1, 0]\ncollective = "all_gather"\n'
                  'algorithm = "ring"\nsizes = ["64KiB"]\n')
        for minor, order in ((28, '["gpu", "w*"]'), (22, '["w0", "gpu", "w1", "w2"]')):
            with self.subTest(release=f"2.{minor}", order=order):
                (self.folder / "id").unlink(missing_ok=True)
                emulator = self.begin(2, minor, order=order, tables=pair + gather)
                program = self.rank(emulator, "--communicators", "2")
                try:
                    said = program.communicate(timeout=LONGEST)[0]
                except subprocess.TimeoutExpired:
                    self.fail((self.folder / "run.log").read_text())
                self.assertEqual(program.returncode, 0, said + emulator.log.read_text())
                operations = [line for line in said.splitlines() if " wrong" in line]
                self.assertEqual(len(operations), 2 * (4 + 3 + 1), said)
                self.assertEqual([line for line in operations if not line.endswith(", 0 wrong")], [], said)
                self.assertIn(emulator.wait(LONGEST), (0, stage.NOT_FAITHFUL))
                jobs = {job["name"]: job for job in self.valid_report(emulator)["jobs"]}
                self.assertEqual({name: (job["planned"], job["done"], job["failed"]) for name, job in jobs.items()},
                                 {"nccl": (8, 8, False), "pair": (6, 6, False), "gather": (2, 2, False)}, emulator.log.read_text())
                self.assertEqual((jobs["gather"]["child_of"], jobs["gather"]["parent_ranks"]), ("nccl", [3, 2, 1, 0]))
                self.assertNotIn("answered", jobs["nccl"])

    def test_any_number(self):
        """Until the run is stopped; faithful or not, by what was done."""
        emulator = self.begin('"any"')
        self.assert_verified(self.rank(emulator, "--communicators", "4"), 16)
        self.wait_for(emulator, "communicator 4: the real ranks have left the communicator")
        self.assertIn(emulator.stop(), (0, stage.NOT_FAITHFUL))
        self.assertEqual(len(self.communicators(emulator, [4, 4, 4, 4])), 4)


if __name__ == "__main__":
    stage.main(live=False)
