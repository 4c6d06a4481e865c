#!/usr/bin/env python3
"""tools/experiments/message_table: messages that are those of AICB's lists; what differs has a name, and a changed list has none.

    tools_experiments_message_table_test.py UNDERSTUDY
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[3]
LISTS = ROOT / "tests/data/workloads/simai"
UNDERSTUDY = str(pathlib.Path(sys.argv.pop(1)).resolve())


def run(*arguments):
    return subprocess.run([sys.executable, ROOT / "tools/experiments/message_table", "--understudy", UNDERSTUDY, *arguments],
                          capture_output=True, text=True, check=False)


class MessageTable(unittest.TestCase):
    def test_differences_have_names(self):
        done = run()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("4 lists; differences without a name: 0", done.stdout)
        mixtral = done.stdout.split("mixtral8x7b_tp2_ep8_sp.txt")[1]
        for way in ("forward", "backward"):
            self.assertRegex(mixtral, rf"{way} +EP +all-to-all +experts +256 x 16777216 +256 x 16777216 +same")
        self.assertRegex(mixtral, r"forward +TP +reduce-scatter experts +128 x 33554432 +128 x 33554432 +same")
        self.assertIn("order forward: embedding, layers, experts, output layer, loss: same", mixtral)

    def test_a_list_that_says_something_else_has_no_name(self):
        def changed(name, old, new, expected):
            with tempfile.TemporaryDirectory() as folder:
                text = (LISTS / name).read_text()
                other = re.sub(old, new, text, count=1)
                self.assertNotEqual(other, text)
                pathlib.Path(folder, name).write_text(other)
                done = run("--lists", folder)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertRegex(done.stdout, expected)

        changed("mixtral8x7b_tp2_ep8_sp.txt", r"ALLTOALL_EP\t16777216", "ALLTOALL_EP\t16777218",
                r"experts +255 x 16777216, 1 x 16777218 +256 x 16777216 +NO REASON KNOWN")
        changed("physical_llama7b_tp2.csv", r"CommType.all_reduce,(.*MegatronRowLinear)", r"CommType.all_gather,\1", "NO REASON KNOWN")
        rows = (LISTS / "mixtral8x7b_tp2_ep8_sp.txt").read_text().splitlines()
        loss = next(row for row in rows if row.startswith("cross_entropy1"))
        changed("mixtral8x7b_tp2_ep8_sp.txt", r"embedding_layer", f"{loss}\nembedding_layer", "order forward: .*NO REASON KNOWN")


if __name__ == "__main__":
    unittest.main()
