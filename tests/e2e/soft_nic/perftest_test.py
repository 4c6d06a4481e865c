"""Options of Debian's perftest on two soft NICs, and what it says where the device does not offer what it asks for."""

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where stage is
import cable  # noqa: E402
import stage  # noqa: E402

MACS = ("-E", "02:00:00:00:00:01", "-B", "02:00:00:00:00:02")


class Options(cable.PairOnCable):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if shutil.which("ib_write_bw") is None:
            raise cls.skipTest(cls, "perftest is not installed (Debian package perftest)")

    def rows(self, printed):
        """Of the table of results: (bytes, iterations) each."""
        words = (line.split() for line in printed.splitlines())
        return [(int(row[0]), int(row[1])) for row in words if len(row) > 3 and row[0].isdigit() and row[1].isdigit()]

    def test_bandwidth(self):
        for options, rows in ((("ib_write_bw", "-q", "4"), [(65536, 400)]),
                              (("ib_write_bw", "-d", "understudy0", "-i", "1", "--report_gbits"), [(65536, 100)]),
                              (("ib_write_bw", "-b", "-q", "3"), [(65536, 300)]),
                              (("ib_write_bw", "-I", "64", "-s", "64"), [(64, 100)]),
                              (("ib_write_bw", "-t", "1"), [(65536, 100)]),
                              (("ib_write_bw", "-t", "500", "-Q", "50", "-s", "4096"), [(4096, 100)]),
                              (("ib_write_bw", "-l", "10", "-Q", "10", "-s", "512", "-m", "512"), [(512, 100)]),
                              (("ib_write_bw", "--use_old_post_send", "--mr_per_qp", "-q", "2"), [(65536, 200)]),
                              (("ib_read_bw", "-o", "1"), [(65536, 100)]),
                              (("ib_read_bw", "-o", "128", "-q", "2"), [(65536, 200)]),
                              (("ib_atomic_bw", "-A", "CMP_AND_SWAP"), [(8, 100)]),
                              (("ib_send_bw", "-b", "-r", "16"), [(65536, 100)]),
                              (("ib_send_bw", "-r", "1000", "-e", "-s", "4096"), [(4096, 100)]),
                              (("ib_send_bw", "--use-srq", "-q", "4"), [(65536, 400)]),
                              (("ib_send_bw", "-c", "UD", "-s", "2048", "-q", "2"), [(2048, 200)]),
                              (("ib_write_bw", "-c", "UC", "-q", "2"), [(65536, 200)]),
                              (("ib_send_bw", "-c", "UC", "-s", "4096"), [(4096, 100)])):
            with self.subTest(options=options):
                self.assertEqual(self.rows(self.pair(*options, "-F", "-x", "0", "-n", "100")), rows)

    def test_all_sizes(self):
        """One program: perftest measures the CPU's clock anew for each of them, which takes longer than the messages."""
        printed = self.pair("ib_send_bw", "-F", "-x", "0", "-a", "-n", "5")
        self.assertEqual(self.rows(printed), [(1 << power, 5) for power in range(1, 24)])

    def test_for_a_time(self):
        printed = self.pair("ib_write_bw", "-F", "-x", "0", "-D", "1", "-s", "4096")
        self.assertEqual([size for size, _ in self.rows(printed)], [4096])

    def test_what_is_not_offered_is_refused(self):
        for words in (("ib_write_bw", "-i", "2"), ("ib_write_bw", "-d", "nowhere0"), ("ib_write_bw", "-I", "5000"),
                      ("raw_ethernet_bw", "--client", *MACS), ("raw_ethernet_bw", "--server", *MACS),
                      ("raw_ethernet_lat", "--client", *MACS)):
            with self.subTest(words=words):
                printed = self.output(0, *words, "-F", status=1)
                self.assertRegex(printed, "(?i)couldn't|unable|failed|should be")

    def test_what_is_not_offered_is_refused_when_a_client_is_there(self):
        for words in (("ib_send_bw", "-c", "XRC"), ("ib_write_bw", "--odp")):
            with self.subTest(words=words):
                self.assertRegex(self.pair(*words, "-F", status=1), "Couldn't create IB resources")


if __name__ == "__main__":
    stage.main(live=False)
