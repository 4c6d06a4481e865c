"""Ring all-reduces of the virtual node beside emulated ranks that do not know what it will do: a feed tells them, or they
infer it."""

import shutil

import stage

PLUGIN = "libnccl-profiler-understudy.so"
FEED = f"NCCL_PROFILER_PLUGIN=/mnt/{PLUGIN} UNDERSTUDY_FEED={stage.NEXT}:7300 "


class Reactive(stage.Stage):
    def run_ring(self, sizes, operations, before=""):
        config = self.ring(sizes=sizes, iterations=3, payload="synthetic", more=f'operations = "{operations}"')
        emulator = self.start(config)
        output = self.join().output(before + stage.RING_NODE)
        self.assertIn("(not verified)", output)
        status = emulator.wait(30)
        report = self.valid_report(emulator)
        self.assert_holds(emulator.capture, "--config", str(config))
        job, = report["jobs"]
        self.assertEqual((job["failed"], job["protocol_violations"]), (False, 0))
        late = " ".join(f"{o['late_ps'] / 1e6:.0f}" for o in job[operations]["operations"])
        times = ", ".join(f"{s['size_bytes']} B in {s['time_ps'] / 1e6:.0f} us (model {s['modelled_ps'] / 1e6:.0f})"
                          for s in job["sizes"])
        print(f"{operations}: {times}; messages late by at most, us, by operation: {late}")
        return status, report, job

    def test_a_feed_tells_the_operations(self):
        shutil.copy(self.build / f"tools/nccl_profiler/{PLUGIN}", self.share)
        status, report, job = self.run_ring('["64KiB", "1MiB"]', "fed", FEED)
        self.assertIn(status, (0, stage.NOT_FAITHFUL))
        self.assertIsNone(job["fed"]["lost"])
        self.assertEqual((job["planned"], job["done"]), (8, 8))
        self.assertEqual([o["right"] for o in job["fed"]["operations"]], [True] * 8)

    def test_a_node_without_a_plugin(self):
        config = self.ring(sizes='["64KiB"]', payload="synthetic",
                           more='operations = "fed"\nfeed = { patience = "50ms" }')
        emulator = self.start(config)
        # Every credit is answered with as much as it allows, which is not what ring_node expects.
        self.assertIn("the cutting says", self.join().execute(stage.RING_NODE).stdout)
        self.assertEqual(emulator.stop(), stage.NOT_FAITHFUL)
        lost = "the feed has told nothing of operation 0 for 50.00 ms"
        self.assertEqual(self.valid_report(emulator)["jobs"][0]["fed"]["lost"], lost)
        self.assertIn(f"every credit is answered at once from now on: {lost}", emulator.log.read_text())

    def test_operations_are_inferred(self):
        status, report, job = self.run_ring('["1MiB"]', "inferred")
        self.assertIn(status, (0, stage.NOT_FAITHFUL))
        self.assertEqual((job["planned"], job["done"]), (4, 4))
        self.assertIsNone(job["inferred"]["lost"])
        found = job["inferred"]["operations"]
        self.assertEqual([o["right"] for o in found], [True] * len(found))


if __name__ == "__main__":
    stage.main()
