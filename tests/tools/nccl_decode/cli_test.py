#!/usr/bin/env python3
"""nccl-decode as a program: exit status, messages, JSON.    tools_nccl_decode_cli_test.py NCCL_DECODE"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests/rigs"))
from confined import comes_to_be_confined  # noqa: E402

NCCL_DECODE = str(pathlib.Path(sys.argv.pop(1)).resolve())
DATA = pathlib.Path(__file__).resolve().parents[2] / "data" / "nccl"


def run(*arguments):
    return subprocess.run([NCCL_DECODE, *map(str, arguments)], capture_output=True, text=True, check=False)


class NcclDecode(unittest.TestCase):
    def test_words(self):
        done = run(DATA / "bootstrap_2.29.7_n4_c1.pcap")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for words in ("NCCL 2.29.7, by its peer info", "rank 3 of 4 checks in with the root", "ring, rank 3 to rank 0",
                      "set-up of tree or PAT at distance 2", "net_ib, rank 3 sends to rank 0 (ring at distance 1, entry 0)"):
            self.assertIn(words, done.stdout)
        self.assertNotIn("not complete", done.stdout)

    def test_json(self):
        report = json.loads(run("--json", DATA / "bootstrap_2.28.9_n8_c2.pcap").stdout)
        self.assertEqual((report["schema"], report["nccl"], report["not_complete"]),
                         ("understudy-nccl-decode/1", "2.28.9", []))
        self.assertEqual(report["communicators"][0]["ranks"], 8)
        kinds = [connection["kind"] for connection in report["connections"]]
        self.assertEqual({kind: kinds.count(kind) for kind in set(kinds)},
                         {"check-in": 8, "root's answer": 8, "ring": 8, "message": 44, "net_ib": 20, "proxy": 2})

    def test_cut_file(self):
        """A file that ends in the middle of a packet is read up to there."""
        whole = (DATA / "bootstrap_2.28.9_n4_c1.pcap").read_bytes()
        with tempfile.TemporaryDirectory() as folder:
            cut = pathlib.Path(folder, "cut.pcap")
            cut.write_bytes(whole[:len(whole) // 2])
            done = run(cut)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("the file ends within a packet", done.stdout)
            self.assertIn("not complete:", done.stdout)

    @unittest.skipUnless(os.environ.get("UNDERSTUDY_CONFINES"), "built without libseccomp, or sanitized")
    def test_is_confined_while_it_reads(self):
        """A pipe that gives a capture's header and then nothing for a while."""
        whole = (DATA / "bootstrap_2.28.9_n4_c1.pcap").read_bytes()
        with tempfile.TemporaryDirectory() as folder:
            pipe = pathlib.Path(folder, "pipe.pcap")
            os.mkfifo(pipe)
            with subprocess.Popen([NCCL_DECODE, str(pipe)], stdout=subprocess.PIPE, text=True) as process:
                with open(pipe, "wb", buffering=0) as writer:
                    writer.write(whole[:24])
                    self.assertTrue(comes_to_be_confined(process))
                    writer.write(whole[24:])
                self.assertIn("rank 3 of 4 checks in with the root", process.communicate(timeout=60)[0])
                self.assertEqual(process.returncode, 0)

    def test_bad(self):
        for arguments in ((), ("/nowhere.pcap",), (__file__,), ("--nccl", "3.1", DATA / "bootstrap_2.28.9_n4_c1.pcap")):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertTrue(done.stderr)


if __name__ == "__main__":
    unittest.main()
