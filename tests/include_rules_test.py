#!/usr/bin/env python3
"""The tree keeps the include rule, and the check does see a tree that does not."""
import pathlib
import tempfile
import unittest

import include_rules

ROOT = pathlib.Path(__file__).resolve().parents[1]


def findings(files):
    """What the check says of a tree with these files (path -> text)."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            file = pathlib.Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return include_rules.check(folder)


class Tree(unittest.TestCase):
    def test_keeps_the_rule(self):
        self.assertEqual(include_rules.check(ROOT), [])
        self.assertEqual(include_rules.check_independence(ROOT), [])

    def test_is_seen_at_all(self):
        seen = list((ROOT / "dataplane").rglob("*.cc"))
        self.assertGreater(len(seen), 20)


class Independence(unittest.TestCase):
    def test_is_of_files_that_are_there(self):
        for path, forbidden in include_rules.INDEPENDENT.items():
            for file in {path} | forbidden:
                self.assertTrue((ROOT / file).is_file(), file)

    def test_sees_through_headers(self):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in {"dataplane/collective/packet_level_ranks.cc": '#include "dataplane/node/a.h"\n',
                               "dataplane/node/a.h": '#include "collective_model/plan/operation_plan.h"\n'}.items():
                file = pathlib.Path(folder, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            found = include_rules.check_independence(folder)
        self.assertEqual([(f[0], f[2]) for f in found], [("dataplane/collective/packet_level_ranks.cc", "collective_model/plan/operation_plan.h")])


class Check(unittest.TestCase):
    def refused(self, path, included, quote='"'):
        close = ">" if quote == "<" else quote
        found = findings({path: f"// first\n#include {quote}{included}{close}\n"})
        self.assertEqual([(f[0], f[1], f[2]) for f in found], [(path, 2, included)])

    def allowed(self, path, included, quote='"'):
        close = ">" if quote == "<" else quote
        self.assertEqual(findings({path: f"#include {quote}{included}{close}\n"}), [])

    def test_to_the_right(self):
        self.refused("dataplane/base/a.h", "dataplane/wire/parse.h")
        self.refused("dataplane/rc/a.cc", "dataplane/engine/shard.h")
        self.refused("dataplane/rc/a.cc", "dataplane/cc/dcqcn.h")
        self.refused("dataplane/engine/a.cc", "ctrl/config/config.h")
        self.allowed("dataplane/engine/a.cc", "dataplane/rc/qp.h")

    def test_the_model_is_free_of_packets(self):
        self.refused("collective_model/plan/a.h", "dataplane/wire/parse.h")
        self.refused("collective_model/plan/a.h", "dataplane/fabric/link.h")
        self.allowed("collective_model/plan/a.h", "dataplane/base/units.h")
        self.refused("dataplane/collective/a.cc", "collective_model/schedule/simple_all_reduce.h")
        self.allowed("dataplane/collective/a.cc", "collective_model/plan/operation_plan.h")

    def test_control_and_tools(self):
        self.refused("ctrl/cli/a.cc", "dataplane/port/capture.h")
        self.refused("ctrl/cli/a.cc", "dataplane/runtime/eal.h")
        self.allowed("ctrl/run/a.cc", "dataplane/runtime/eal.h")
        self.refused("ctrl/peers/a.h", "ctrl/peers/nccl/bootstrap/check_in.h")
        self.refused("ctrl/config/a.cc", "ctrl/peers/torch_store/wire.h")
        self.refused("ctrl/report/a.h", "ctrl/schedule/job_work.h")
        self.refused("tools/soft_nic/port/a.h", "tools/soft_nic/device/nic.h")
        self.refused("tools/roce_check/checks/a.cc", "dataplane/engine/shard.h")
        self.refused("tools/roce_check/checks/a.cc", "ctrl/peers/ring/ring_messages.h")
        self.allowed("tools/rigs/ring_node/a.cc", "ctrl/peers/ring/ring_messages.h")
        self.refused("tools/rigs/ring_node/a.cc", "ctrl/peers/ring/ring_peer.h")

    def test_dpdk(self):
        self.refused("dataplane/engine/a.cc", "rte_mbuf.h", "<")
        self.refused("ctrl/cli/a.cc", "dpdk/rte_ethdev.h")
        self.allowed("dataplane/port/a.cc", "rte_mbuf.h", "<")

    def test_from_the_root(self):
        found = findings({"ctrl/cli/a.cc": '#include "b.h"\n', "ctrl/cli/b.h": ""})
        self.assertEqual(len(found), 1)

    def test_odd_spelling(self):
        found = findings({"dataplane/base/a.h": '  #  include   "ctrl/config/read/load.h"  // x\n'})
        self.assertEqual(len(found), 1)


if __name__ == "__main__":
    unittest.main()
