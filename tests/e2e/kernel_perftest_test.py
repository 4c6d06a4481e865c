"""tools/experiments/kernel_perftest: Debian's unmodified perftest and pingpong between two kernels in virtual time, and against an emulated service:
bandwidths within 1 % of the payload rate, latencies what path and serialisation take."""

import subprocess

import stage

LATENCIES = "ib_write_lat,ib_read_lat,ib_send_lat,ibv_rc_pingpong"
BANDWIDTHS = "ib_write_bw,ib_read_bw,ib_send_bw"


class KernelPerftest(stage.Stage):
    def table(self, *arguments, status=0):
        """(program, with, Gbit/s, reported, expected) of each row."""
        done = subprocess.run([stage.ROOT / "tools/experiments/kernel_perftest", "--build", self.build, *arguments], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        print(done.stdout)
        rows = [line.rsplit(maxsplit=6) for line in done.stdout.splitlines()[1:]]
        return [(name, end, int(rate), float(reported), float(expected)) for name, end, rate, reported, expected, _, _ in rows]

    def test_bandwidths_between_kernels(self):
        if not stage.ALL:
            self.assertEqual(len(self.table("--tests", "ib_read_bw -e", "--ends", "kernel", "--rates", "100")), 1)
            return
        rows = self.table("--tests", BANDWIDTHS, "--ends", "kernel", "--rates", "100,400")
        self.assertEqual(len(rows), 12)  # read and send by events, too, and send by datagrams

    def test_bandwidths_of_a_service(self):
        tests, rows = (BANDWIDTHS, 5) if stage.ALL else ("ib_write_bw", 1)
        self.assertEqual(len(self.table("--tests", tests, "--ends", "service", "--rates", "100")), rows)

    def assert_latencies(self, rows):
        for name, end, _, reported, expected in rows:
            with self.subTest(name=name, end=end):
                self.assertAlmostEqual(reported, expected, delta=0.01)  # two digits are printed

    def test_latencies(self):
        self.assert_latencies(self.table("--tests", "ib_write_lat", "--rates", "100"))

    @stage.only_in_full
    def test_all_latencies(self):
        rows = self.table("--tests", LATENCIES, "--rates", "100", "--ends", "kernel")
        rows += self.table("--tests", "ib_write_lat,ibv_rc_pingpong", "--rates", "100", "--ends", "service")
        self.assertEqual(len(rows), 7 + 3)
        self.assert_latencies(rows)
        # Polling takes what waiting for events takes.
        for program in ("ib_read_lat", "ib_send_lat", "ibv_rc_pingpong"):
            self.assertEqual(len({reported for name, end, _, reported, _ in rows if (name.split()[0], end) == (program, "kernel")}), 1)

    def test_a_limit_can_be_missed(self):
        self.table("--tests", "ib_write_bw", "--ends", "service", "--rates", "100", "--limit", "0.01", status=1)

    def test_what_is_no_test_is_an_error(self):
        for arguments, error in ((("--tests", "ib_fly"), "--tests: no 'ib_fly', expected some of ib_write_bw, "),
                                 (("--ends", "moon"), "--ends: no 'moon', expected some of kernel, service"),
                                 (("--rates", "100,x"), "--rates: 'x' is no rate in Gbit/s"),
                                 (("--rates", "0"), "--rates: '0' is no rate in Gbit/s"),
                                 (("--tests", "ib_send_bw -c UD -N", "--ends", "service"), "no service answers ib_send_bw -c UD -N")):
            with self.subTest(arguments=arguments):
                done = subprocess.run([stage.ROOT / "tools/experiments/kernel_perftest", *arguments], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(error, done.stderr)


if __name__ == "__main__":
    stage.main(live=False, guests=True)
