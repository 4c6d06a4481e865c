#!/usr/bin/env python3
"""tools/lib/read_server.py: READs whose times are worked out by hand, in packets of 1 us."""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools/lib"))
from read_server import Nic, serve  # pylint: disable=wrong-import-position


def ends(posts, burst, ahead, by_client=False, following=lambda *_: [], last=1.0):
    """When each READ ends, to a tenth of a microsecond."""
    times = serve(Nic(burst, ahead, by_client, 1.0, last, 0.0), posts, following)
    when = {(client, number): posted for posted, client, number, _ in posts}
    return {read: round(when.get(read, 0.0) + took, 1) for read, took in times.items()}


class ReadServer(unittest.TestCase):
    def test_alone(self):
        self.assertAlmostEqual(ends([(5.0, 3, 0, 10)], 4, 2)[3, 0], 15, delta=0.1)
        self.assertAlmostEqual(ends([(5.0, 3, 0, 10)], 4, 2, last=0.2)[3, 0], 14.2, delta=0.1)

    def test_equal_shares(self):
        # Packet by packet: the first has every other of the first 20.
        done = ends([(0.0, 1, 0, 10), (0.01, 2, 0, 10)], 1, 2)
        self.assertAlmostEqual(done[1, 0], 19, delta=0.5)
        self.assertAlmostEqual(done[2, 0], 20, delta=0.5)

    def test_bursts(self):
        # 1 1 1 1, 2 2 2 2, 1 1 1 1, 2 2 2 2, 1 1, 2 2.
        done = ends([(0.0, 1, 0, 10), (0.01, 2, 0, 10)], 4, 2)
        self.assertAlmostEqual(done[1, 0], 18, delta=0.5)
        # One packet more than two bursts is a third turn.
        self.assertAlmostEqual(ends([(0.0, 1, 0, 9), (0.01, 2, 0, 9)], 4, 2)[1, 0], 17, delta=0.5)
        self.assertAlmostEqual(ends([(0.0, 1, 0, 8), (0.01, 2, 0, 8)], 4, 2)[1, 0], 12, delta=0.5)

    def test_what_is_fetched_goes_first(self):
        # At 20 the first READ has sent 20, and 30 more wait for the wire; the last 50 take turns with the other READ.
        posts = [(0.0, 1, 0, 100), (20.0, 2, 0, 100)]
        self.assertAlmostEqual(ends(posts, 1, 30)[1, 0], 150, delta=2)
        self.assertAlmostEqual(ends(posts, 1, 2)[1, 0], 178, delta=2)
        self.assertAlmostEqual(ends(posts, 1, 90)[1, 0], 100, delta=2)

    def test_order(self):
        # Client 2 posts last, but its number follows the first one's.
        posts = [(0.0, 1, 0, 4), (0.01, 3, 0, 4), (0.02, 2, 0, 4)]
        waited = ends(posts, 4, 2)
        numbered = ends(posts, 4, 2, by_client=True)
        self.assertLess(waited[3, 0], waited[2, 0])
        self.assertLess(numbered[2, 0], numbered[3, 0])
        # Beyond the highest number the circle begins again.
        circle = ends([(0.0, 5, 0, 4), (0.01, 7, 0, 4), (0.02, 0, 0, 4)], 4, 2, by_client=True)
        self.assertLess(circle[7, 0], circle[0, 0])

    def test_what_follows(self):
        times = serve(Nic(4, 2, False, 1.0, 1.0, 5.0), [(0.0, 1, 0, 10)],
                      lambda client, number, end: [(end + 100, client, number + 1, 20)] if number == 0 else [])
        self.assertAlmostEqual(times[1, 0], 15, delta=0.1)
        self.assertAlmostEqual(times[1, 1], 25, delta=0.1)


if __name__ == "__main__":
    unittest.main()
