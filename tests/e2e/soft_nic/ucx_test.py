"""Debian's UCX, and its OpenMPI over UCX, unmodified, on two soft NICs."""

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where stage is
import cable  # noqa: E402
import stage  # noqa: E402
from cable import CLIENT, SERVER  # noqa: E402

DEVICE = "understudy0:1"
# Starts on the other end what mpirun would start by ssh.
AGENT = """#!/bin/sh
shift
exec ip netns exec {end} sh -c "$*"
"""
# Any character device that may be read and written will do: it is looked at only.
OWN_DEV = """mount -t tmpfs none /mnt && cp -a /dev/null /dev/zero /dev/urandom /mnt && mkdir /mnt/shm /mnt/infiniband &&
cp -a /dev/null /mnt/infiniband/understudy0 && mount --move /mnt /dev && exec "$@" """


class Ucx(cable.PairOnCable):
    """UCX_TLS=rc_v is reliable connections, whose addresses are exchanged by datagrams: rc_verbs and ud_verbs."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if shutil.which("ucx_perftest") is None:
            raise cls.skipTest(cls, "UCX is not installed (Debian package ucx-utils)")

    def measured(self, test, *options, count=100, **environment):
        self.environment.update(environment)
        printed = self.pair("ucx_perftest", "-t", test, "-n", str(count), "-w", "5", *options)
        self.assertRegex(printed, rf"(?m)^Final: +{count} ", f"{test} {options} {environment}")

    def test_the_device_is_listed(self):
        shown = self.output(0, "ucx_info", "-d")
        for transport in ("rc_verbs", "ud_verbs"):
            self.assertRegex(shown, rf"Transport: {transport}\n#\s+Device: {DEVICE}\n")

    def test_transports(self):
        of_connections = (("put_lat",), ("put_bw", "-s", "100000", "-D", "zcopy"), ("get", "-s", "4096", "-D", "bcopy"), ("am_lat",),
                          ("am_bw", "-s", "4096", "-D", "zcopy"), ("add_lat",), ("fadd",), ("cswap",))
        of_datagrams = (("am_lat",), ("am_bw", "-s", "4000", "-D", "zcopy"))
        for transport, tests in (("rc_verbs", of_connections), ("ud_verbs", of_datagrams)):
            for test in tests:
                with self.subTest(transport=transport, test=test):
                    self.measured(*test, "-x", transport, "-d", DEVICE)

    def test_protocols_above_them(self):
        for transport in ("rc_v", "ud_verbs"):
            for test in (("tag_lat",), ("tag_bw", "-s", "1000000"), ("ucp_am_bw", "-s", "8000"), ("stream_bw", "-s", "8000"),
                         ("ucp_put_bw", "-s", "50000"), ("ucp_get", "-s", "50000"), ("ucp_fadd",), ("ucp_cswap",)):
                with self.subTest(transport=transport, test=test):
                    self.measured(*test, UCX_TLS=transport)
        for scheme in ("get_zcopy", "put_zcopy"):
            with self.subTest(scheme=scheme):
                self.measured("tag_bw", "-s", "1000000", UCX_TLS="rc_v", UCX_RNDV_SCHEME=scheme)

    def test_those_who_sleep_are_woken(self):
        for transport in ("rc_v", "ud_verbs"):
            with self.subTest(transport=transport):
                self.measured("tag_lat", "-E", "sleep", count=1000, UCX_TLS=transport)

    def test_threads_share_a_device(self):
        self.environment["UCX_TLS"] = "rc_v"
        self.assertIn("Final:", self.pair("ucx_perftest", "-t", "tag_bw", "-n", "100", "-w", "5", "-T", "2", "-M", "multi"))


    def test_by_soname_where_there_is_a_file_for_the_device(self):
        """libibverbs' stand-in cannot answer stat(), so a file must be there: in a /dev of the program's own, here."""
        del self.environment["LD_PRELOAD"]
        self.environment["LD_LIBRARY_PATH"] = str(stage.Stage.build / "tools/soft_nic")
        self.assertIn(DEVICE, self.output(0, "unshare", "--mount", "sh", "-c", OWN_DEV, "sh", "ucx_info", "-d"))
        self.assertNotIn(DEVICE, self.output(0, "ucx_info", "-d"))


class OpenMpi(cable.OnCable):
    def test_what_comes_back_is_what_was_sent(self):
        if shutil.which("mpirun") is None or shutil.which("NPopenmpi") is None:
            self.skipTest("OpenMPI or its ping-pong is not installed (Debian packages openmpi-bin, netpipe-openmpi)")
        agent = self.folder / "agent"
        agent.write_text(AGENT.format(end=self.cable.ends[1]))
        agent.chmod(0o755)
        start = ["mpirun", "--allow-run-as-root", "-np", "2", "--oversubscribe"]
        for setting in (("plm_rsh_agent", str(agent)), ("oob_tcp_if_include", "soft0"), ("orte_tmpdir_base", str(self.folder)),
                        ("pml", "ucx")):
            start += ["--mca", *setting]
        for variable in ("LD_PRELOAD", "UNDERSTUDY_SOFT_NIC", "UCX_TLS"):
            start += ["-x", variable]
        figures = str(self.folder / "figures")
        for transport, hosts in (("rc_v,self", f"{CLIENT},{SERVER}"), ("ud_verbs,self", f"{CLIENT},{SERVER}"),
                                 ("rc_v,self", f"{CLIENT}:2")):
            with self.subTest(transport=transport, hosts=hosts):
                printed = self.output(0, *start, "--host", hosts, "NPopenmpi", "-i", "-n", "3", "-u", "3000000", "-o", figures,
                                      UCX_TLS=transport)
                self.assertGreater(printed.count("Integrity check passed"), 30, printed)
                self.assertNotIn("failed", printed)


if __name__ == "__main__":
    stage.main(live=False)
