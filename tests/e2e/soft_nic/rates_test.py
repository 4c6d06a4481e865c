"""tools/experiments/soft_nic_rates: a column that needs no root, its table and JSON; what it does not take."""

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where stage is
import stage  # noqa: E402


class Rates(stage.Stage):
    def rates(self, *arguments):
        return subprocess.run([stage.ROOT / "tools/experiments/soft_nic_rates", "--build", self.build, *arguments], capture_output=True, text=True,
                              check=False)

    def test_a_column(self):
        out = self.folder / "rates.json"
        done = self.rates("--quick", "--repeats", "2", "--sets", "vhost", "--out", out)
        print(done.stdout)
        if "it needs user namespaces" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^\d+ CPUs, load ")
        report = json.loads(out.read_text())
        rows = {row["name"]: row for row in report["rows"]}
        self.assertEqual(len(rows), 12)
        for verb in ("write", "send", "read"):
            self.assertEqual([rows[f"{verb} {size}"]["unit"] for size in ("8 B", "8 B latency", "64 KiB", "1 MiB")],
                             ["M messages/s", "us", "Gbit/s", "Gbit/s"])
        for row in rows.values():
            self.assertEqual(len(row["values"]), 2)
            self.assertTrue(0 < min(row["values"]) <= row["median"] <= max(row["values"]), row)

    def test_what_it_does_not_take(self):
        for arguments, error in ((("--sets", "vhost,moon"), "--sets: no 'moon', expected some of vhost, packets, rxe, two, tcp"),
                                 (("--repeats", "0"), "--repeats: '0' is no number of repetitions"),
                                 (("--idle", "doze"), "--idle"), (("--out", "/nowhere/at/all.json"), "--out: no folder /nowhere/at"),
                                 (("--build", self.folder), f"--build: no {self.folder}/ctrl/understudy")):
            with self.subTest(arguments=arguments):
                done = self.rates(*arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(error, done.stderr)


if __name__ == "__main__":
    stage.main(live=False)
