"""A pairwise subset of the interop matrix: unmodified programs against faults, every byte compared, captures judged."""

import subprocess
import sys

import stage


class Interop(stage.Stage):
    def test_every_pair_of_values(self):
        done = subprocess.run([sys.executable, str(stage.ROOT / "tools/experiments/interop"), "--build", str(self.build)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        print(done.stdout)
        self.assertEqual(done.returncode, 0, "the matrix and what is wrong with it stand above")


if __name__ == "__main__":
    stage.main()
