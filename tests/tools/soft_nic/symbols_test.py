#!/usr/bin/env python3
"""What verbs programs ask libibverbs and librdmacm for, against what the soft NIC's library has.

    tools_soft_nic_symbols_test.py LIBRARY STAND_IN LIBIBVERBS [unittest's arguments]

Each program on this machine is looked at; one that is not installed is passed over. A function that the library lacks
would reach the distribution's, which knows nothing of our objects, so it must be in the tables below: HARMLESS for those
that touch no object, MISSING for those that are still to be written. An entry that is no longer missing is an error, too. STAND_IN, the library for those who look for libibverbs by its soname, must have every symbol of the
distribution's, LIBIBVERBS.
"""
import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

OURS = re.compile(r"_?(ibv|rdma)_\w+|rsocket")
# Texts, numbers and files: the distribution's do.
# tools/soft_nic/verbs/verbs_text.cc has them for the stand-in.
HARMLESS = {"ibv_wc_status_str", "ibv_event_type_str", "ibv_node_type_str", "ibv_port_state_str", "ibv_rate_to_mult",
            "ibv_rate_to_mbps", "ibv_read_sysfs_file", "ibv_get_sysfs_path"}
# Not of verbs: tools/soft_nic/device_file_calls.cc says why.
FILES = {"access", "stat"}
BASIC = ("ibv_devices", "ibv_ud_pingpong", "ibv_devinfo", "ibv_rc_pingpong", "ibv_srq_pingpong", "ibv_asyncwatch", "ibv_uc_pingpong",
         "ibv_xsrq_pingpong")
PERFTEST = [f"ib_{kind}_{what}" for kind in ("write", "read", "send", "atomic") for what in ("bw", "lat")]
CONNECTING = ("rping", "ucmatose", "udaddy", "mckey", "cmtime", "rdma_server", "rdma_client", "rdma_xserver", "rdma_xclient",
              "raw_ethernet_bw", "raw_ethernet_lat", "raw_ethernet_burst_lat", "raw_ethernet_fs_rate")
# Told by rsocket(), with which they begin, that there are no sockets over RDMA.
SOCKETS = ("rstream", "riostream", "rcopy", "udpong")
MISSING = {name: set() for name in (*BASIC, *PERFTEST, *CONNECTING, *SOCKETS)}
# UCX's modules, which it loads by itself, in Debian's folders.
UCX = [str(file) for folder in ("/usr/lib/ucx", *Path("/usr/lib").glob("*/ucx")) for file in Path(folder).glob("libuct_*.so.0")]
# What NCCL 2.18 to 2.31 looks up, by dlvsym() in a version each (src/misc/ibvsymbols.cc).
NCCL = {**{f"ibv_{name}": "IBVERBS_1.1" for name in
           ("get_device_list free_device_list get_device_name open_device close_device get_async_event ack_async_event "
            "query_device query_port query_gid query_qp alloc_pd dealloc_pd reg_mr dereg_mr create_cq destroy_cq create_qp "
            "modify_qp destroy_qp fork_init event_type_str").split()},
        "ibv_reg_mr_iova2": "IBVERBS_1.8", "ibv_query_ece": "IBVERBS_1.10", "ibv_set_ece": "IBVERBS_1.10",
        "ibv_reg_dmabuf_mr": "IBVERBS_1.12", "ibv_query_port_speed": "IBVERBS_1.16"}


def symbols(file, kind):
    listed = subprocess.run(["nm", "-D", kind, str(file)], stdout=subprocess.PIPE, text=True, check=True).stdout
    names = {line.split()[-1].split("@")[0] for line in listed.splitlines()}
    return {name for name in names if OURS.fullmatch(name)}


class Symbols(unittest.TestCase):
    library = stand_in = distribution = None

    def setUp(self):
        self.have = symbols(self.library, "--defined-only")

    def lacking(self, wanted):
        return wanted - self.have - HARMLESS

    def test_programs_find_what_they_ask_for(self):
        looked_at = 0
        for program, known in MISSING.items():
            file = shutil.which(program)
            if file is None:
                continue
            looked_at += 1
            with self.subTest(program=program):
                self.assertLessEqual(self.lacking(symbols(file, "--undefined-only")), known)
        if looked_at == 0:
            self.skipTest("no verbs program is installed (Debian packages ibverbs-utils, perftest, rdmacm-utils)")

    def test_what_is_said_to_be_missing_is_missing(self):
        for known in MISSING.values():
            self.assertEqual(known & self.have, set())

    def test_ucx_finds_what_it_asks_for(self):
        if not UCX:
            self.skipTest("UCX is not installed (Debian package libucx0)")
        wanted = {module: symbols(module, "--undefined-only") for module in UCX}
        self.assertIn("ibv_open_device", set().union(*wanted.values()))  # the modules that use verbs are among them
        for module, names in wanted.items():
            with self.subTest(module=module):
                self.assertEqual(self.lacking(names), set())

    def test_nccl_finds_what_it_looks_up(self):
        self.assertEqual(self.lacking(set(NCCL)), set())
        self.assertEqual({(False, f"{name}@@{version}") for name, version in NCCL.items()} - self.versioned(self.stand_in), set())

    def test_nothing_else_gets_out(self):
        listed = subprocess.run(["nm", "-D", "--defined-only", str(self.library)], stdout=subprocess.PIPE, text=True,
                                check=True).stdout
        names = {line.split()[-1] for line in listed.splitlines()}
        # Versions, too: they have an @.
        self.assertEqual({name for name in names if not OURS.fullmatch(name)}, FILES)


    def versioned(self, library):
        """Default versions only: others are for programs from before 2008."""
        listed = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", str(library)],
                                stdout=subprocess.PIPE, text=True, check=True).stdout
        return {(words[-2] in "BD", words[-1]) for words in map(str.split, listed.splitlines()) if "@@" in words[-1]}

    def test_the_stand_in_has_all_that_the_distribution_has_in_the_same_versions(self):
        theirs, ours = self.versioned(self.distribution), self.versioned(self.stand_in)
        self.assertGreater(len(theirs), 100)
        self.assertEqual(theirs - ours, set())
        known = {other.split("@")[0] for _, other in theirs} | set(NCCL)  # NCCL's may be newer than the distribution's
        self.assertEqual({name.split("@")[0] for _, name in ours} & self.have, self.have & known)

    def test_the_stand_in_knows_the_rates_and_texts_that_the_distribution_knows(self):
        theirs = ctypes.CDLL(str(self.distribution))
        # Under another name, or the loader takes it for the one that is there.
        with tempfile.TemporaryDirectory() as folder:
            ours = ctypes.CDLL(shutil.copy(self.stand_in, Path(folder) / "stand_in.so"))
        for name, codes in (("ibv_rate_to_mult", range(-1, 40)), ("ibv_rate_to_mbps", range(-1, 40)),
                            ("mult_to_ibv_rate", range(-1, 600)), ("mbps_to_ibv_rate", ())):
            for code in codes or {theirs.ibv_rate_to_mbps(rate) for rate in range(40)} | {1}:
                self.assertEqual(getattr(ours, name)(code), getattr(theirs, name)(code), (name, code))
        for name, count in (("ibv_wc_status_str", 24), ("ibv_event_type_str", 20), ("ibv_node_type_str", 8),
                            ("ibv_port_state_str", 6)):
            texts = []
            function = getattr(ours, name)
            function.restype = ctypes.c_char_p
            for code in range(count + 1):
                texts.append(function(code))
            self.assertEqual(function(-1), b"unknown")
            self.assertEqual(texts[-1], b"unknown")
            self.assertNotIn(None, texts)


if __name__ == "__main__":
    Symbols.library, Symbols.stand_in, Symbols.distribution = (sys.argv.pop(1) for _ in range(3))
    unittest.main()
