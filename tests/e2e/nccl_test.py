"""A reference rank of NCCL on the virtual node's RDMA device, in a communicator whose other ranks are emulated."""

import stage
from nccl_job import Job


class Nccl(Job):
    """Each case: release, ranks, and what of the configuration is not the default."""

    idle = "sleep"  # it is not asked how long anything took, and others run beside it

    def play(self, minor, ranks, **job):
        """A run with one node; returns what the real rank printed of its operations."""
        for old in (self.share / "id", self.socket):
            old.unlink(missing_ok=True)
        config = self.config(minor, ranks, **job)
        emulator = self.start(config, "--linger", "60s")
        node = self.node()
        output = node.output("/mnt/nccl_rank_node /mnt/run.toml --id /mnt/id")
        node.stop()
        self.assertIn(emulator.stop(), (0, stage.NOT_FAITHFUL))
        print(output, end="", flush=True)
        done, = self.valid_report(emulator)["jobs"]
        self.assertEqual((done["done"], done["failed"], done["protocol_violations"]), (done["planned"], False, 0))
        self.assert_holds(emulator.capture, "--config", str(config))
        operations = output.splitlines()[2:]
        self.assertEqual(len(operations), done["planned"])
        return operations

    def play_all(self, few, *more):
        """The first case, or all."""
        for minor, ranks, job in stage.cases((few,), more):
            with self.subTest(release=f"2.{minor}", ranks=ranks, **job):
                for operation in self.play(minor, ranks, **job):
                    verified = job.get("payload") == "exact"
                    self.assertTrue(operation.endswith(", 0 wrong" if verified else ", not verified"), operation)

    def test_rings_are_right_to_the_bit(self):
        exact = {"payload": "exact"}
        small = {"sizes": '["256KiB"]', "channels": 1}
        self.play_all((28, 1024, exact | small | {"iterations": 1}), (22, 2, exact), (18, 4, exact), (28, 8, exact), (29, 64, exact | small))

    @stage.only_in_full
    def test_connections_of_several_queue_pairs(self):
        exact = {"payload": "exact", "sizes": '["1MiB"]'}
        self.play_all((19, 4, exact | {"more": ", queue_pairs = 3"}), (30, 4, exact | {"more": ", queue_pairs = 2"}))

    @stage.only_in_full
    def test_emulated_roots_and_an_agreed_address(self):
        exact = {"payload": "exact", "sizes": '["64KiB"]'}
        middle = {"order": '["w0", "w1", "gpu", "w2"]'}
        self.play_all((28, 4, exact | middle | {"join": 'comm_id = "10.9.0.2:5555"'}), (23, 4, exact | middle),
                      (30, 4, exact | {"join": 'comm_id = "10.9.0.1:5555"'}))

    @stage.only_in_full
    def test_trees(self):
        small = {"algorithm": "tree", "sizes": '["256KiB"]'}
        self.play_all((18, 64, small), (22, 4, small), (29, 8, small), (28, 1024, small | {"iterations": 1}))

    def test_lines_with_flags(self):
        sizes = {"sizes": '["16KiB", "256KiB"]'}
        self.play_all((28, 4, {"algorithm": "auto", "protocol": "auto", "sizes": '["4KiB", "64KiB", "4MiB", "1MiB"]'}),
                      (28, 4, sizes | {"protocol": "ll"}), (29, 8, sizes | {"protocol": "ll128", "algorithm": "tree"}),
                      (22, 4, sizes | {"protocol": "ll128"}))

    def test_other_collectives(self):
        self.play_all((25, 4, {"collective": "reduce_scatter", "algorithm": "pat"}),
                      (20, 4, {"collective": "all_gather"}), (24, 4, {"collective": "reduce_scatter"}),
                      (21, 4, {"collective": "broadcast"}), (26, 4, {"collective": "reduce"}),
                      (23, 4, {"collective": "all_gather", "algorithm": "pat"}),
                      (27, 4, {"collective": "send_recv"}), (31, 4, {"collective": "all_to_all"}))


if __name__ == "__main__":
    stage.main()
