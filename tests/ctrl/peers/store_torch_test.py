#!/usr/bin/env python3
"""PyTorch itself (Debian's python3-torch, 1.13, on the CPU) as one of four ranks, emulated ranks as
the others: its TCPStore, its rendezvous, its barriers, its torchrun. It speaks the oldest generation
of the store's protocol; of the newer ones tests/ctrl/peers/store_test.cc has byte scripts.

    ctrl_peers_store_torch_test.py build/tests/store_ranks

Skipped (status 77) where there is no torch; with it, 630 MB: apt-get install python3-torch."""
from torch_ranks import UNIQUE_ID, WORLD, TorchRanks, main, only_in_full


class TorchStore(TorchRanks):
    def launcher(self, node_rank):
        return ("-m", "torch.distributed.run", "--nnodes", str(WORLD), "--nproc_per_node", "1",
                "--monitor_interval", "0.1", "--node_rank", str(node_rank), "--master_addr", "127.0.0.1",
                "--master_port", str(self.port),
                # With Python 3.11 this release takes no other values than 1 and 2.
                "--redirects", "1", "--tee", "1", "--log_dir", str(self.script.parent))

    def test_rank_0_is_real_and_a_second_group_follows(self):
        emulated = self.emulated(0, "0,1")  # comes first: the store is waited for
        real = self.real(0, "0,1")
        learned = self.until(emulated, f"learned 1 0 {UNIQUE_ID.hex()}\n")
        self.assertIn("torch 2.0 or earlier", learned)
        self.assertIn(f"learned 0 0 {UNIQUE_ID.hex()}\n", learned)
        output = self.finish(real)
        self.check_rank(output, 0, UNIQUE_ID.hex())
        self.assertIn(f"group 0,1 {UNIQUE_ID.hex()}\n", output)
        self.finish(emulated)

    GROUPS = ["0,1", "1,3", "2,3", "0,1,2,3"]  # of new_group(), in its order

    def test_groups_and_pairs_of_an_emulated_store(self):
        emulated = self.emulated(3, *self.GROUPS)
        output = self.finish(self.real(3, *self.GROUPS, "0:3", "2:3"))
        said = self.finish(emulated)
        for group, key in (("1,3", "2 0"), ("2,3", "3 0"), ("0,1,2,3", "4 0"), ("0:3", "0 0:3"),
                           ("2:3", "0 2:3")):
            gave = next(line for line in said.splitlines() if line.startswith(f"gave {key} "))
            self.assertIn(f"group {group} {gave.split()[3]}\n", output)
        self.assertNotIn("gave 1 0", said)

    @only_in_full
    def test_groups_and_pairs_of_a_real_store(self):
        emulated = self.emulated(0, 2, *self.GROUPS)
        arguments = (*self.GROUPS, "1:2", "2:3", "0:3")
        processes = {rank: self.real(rank, *arguments) for rank in (2, 0)}
        output = {rank: self.until(process, "done") for rank, process in processes.items()}
        for process in processes.values():
            self.finish(process)
        said = self.finish(emulated)
        # Real ranks' ids are found; those of groups whose first rank is emulated are there before.
        for key in ("1 0", "3 0", "4 0", "0 2:3", "0 0:3"):
            self.assertIn(f"learned {key} {UNIQUE_ID.hex()}", said)
        gave = next(line for line in said.splitlines() if line.startswith("gave 0 1:2 "))
        self.assertIn(f"group 1:2 {gave.split()[3]}\n", output[2])
        for rank, group in ((0, "0,1"), (2, "2,3"), (0, "0,1,2,3"), (2, "0,1,2,3")):
            self.assertIn(f"group {group} {UNIQUE_ID.hex()}\n", output[rank])

    @only_in_full
    def test_two_real_ranks_with_rank_0(self):
        emulated = self.emulated(0, 2)
        processes = {rank: self.real(rank) for rank in (2, 0)}
        said = {rank: self.until(process, "done") for rank, process in processes.items()}
        for rank, process in processes.items():
            self.finish(process)
            self.check_rank(said[rank], rank, UNIQUE_ID.hex())
        self.finish(emulated)

    @only_in_full
    def test_rank_0_is_emulated(self):
        emulated = self.emulated(3)
        output = self.finish(self.real(3))
        self.check_rank(output, 3, self.given(emulated))

    @only_in_full
    def test_torchrun_as_node_0(self):
        emulated = self.emulated(0)
        real = self.real(0, launcher=self.launcher(0))
        self.until(emulated, f"learned 0 0 {UNIQUE_ID.hex()}\n")
        self.check_rank(self.finish(real), 0, UNIQUE_ID.hex())
        self.finish(emulated)

    def test_torchrun_as_node_2_of_an_emulated_master(self):
        emulated = self.emulated(2)
        output = self.finish(self.real(2, launcher=self.launcher(2)))
        self.check_rank(output, 2, self.given(emulated))


if __name__ == "__main__":
    main()
