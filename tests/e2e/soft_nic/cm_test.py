"""Unmodified programs that connect two soft NICs by RDMA-CM, in one process and in several; what both ends heard is held to all rules."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where stage is
import stage  # noqa: E402
from cable import LISTENS, LONGEST, SERVER, PairOnCable  # noqa: E402


# A program whose child uses RDMA-CM beside it, and after it.
FORKS_CONNECTING = """
import ctypes, os, socket, struct, time
verbs = ctypes.CDLL(None, use_errno=True)
verbs.rdma_create_event_channel.restype = ctypes.c_void_p
def listen(who, port):
    channel, made = ctypes.c_void_p(verbs.rdma_create_event_channel()), ctypes.c_void_p()
    assert verbs.rdma_create_id(channel, ctypes.byref(made), None, 0x0106) == 0
    address = struct.pack("=HH12x", socket.AF_INET, socket.htons(port))
    assert verbs.rdma_bind_addr(made, address) == 0
    failed = verbs.rdma_listen(made, 0)
    print(who, port, os.strerror(ctypes.get_errno()) if failed else "listens", flush=True)
listen("parent", 4000)
parent, (done, tell) = os.getpid(), os.pipe()
if os.fork() == 0:
    listen("child", 4000)
    listen("child", 4001)
    os.write(tell, b"1")
    while os.getppid() == parent:
        time.sleep(0.01)
    listen("child", 4000)
else:
    os.read(done, 1)
    listen("parent", 4001)
"""


class Connections(PairOnCable):
    def test_connections_by_rdma_cm(self):
        printed = self.connected("rping", "-a", SERVER, "-C", "3", "-v", server=("-s",), client=("-c",))
        self.assertEqual(printed.count("ping data: rdma-ping-"), 3, printed)
        for program in (("ib_write_bw", "-s", "65536"), ("ib_send_lat", "-s", "8"), ("ib_read_bw", "-s", "65536")):
            with self.subTest(program=program):
                self.connected(*program, "-R", "-F", "-n", "100")
        self.assertIn("return status 0", self.connected("ucmatose", "-c", "3", client=("-s", SERVER)))
        printed = self.beside(("cmtime", "-b", SERVER, "-c", "50"), "cmtime", "-s", SERVER, "-c", "50")
        self.assertRegex(printed, r"connect +: +\d+\.\d\d")

    def test_endpoints_whose_calls_wait(self):
        for kind in ("", "x"):
            with self.subTest(kind=kind):
                with open(self.log, "w") as log:
                    server = stage.favoured(self.cable.command(1, [f"rdma_{kind}server"]), env=self.environment, stdout=log, stderr=log)
                self.addCleanup(server.kill)
                self.wait_for_server(LISTENS)
                self.assertIn("end 0", self.output(0, f"rdma_{kind}client", "-s", SERVER))
                self.assertEqual(server.wait(timeout=LONGEST), 0, self.log.read_text())

    def test_datagrams_by_rdma_cm(self):
        for options in ((), ("-c", "4", "-C", "20", "-S", "1000")):
            with self.subTest(options=options):
                self.assertIn("return status 0", self.connected("udaddy", *options, client=("-s", SERVER)))

    def running(self, end, *words):
        """A program in the background, with what it prints."""
        log = open(self.folder / f"{end}-{len(os.listdir(self.folder))}.log", "w+")
        self.addCleanup(log.close)
        program = stage.favoured(self.cable.command(end, words), env=self.environment, stdout=log, stderr=log, text=True)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        return program, log

    def assert_ends(self, program, log, status=0):
        ended = program.wait(timeout=LONGEST)
        log.seek(0)
        self.assertEqual(ended, status, log.read())

    def test_several_processes_on_one_address(self):
        """Each hears all requests and messages, and leaves to others what is theirs."""
        servers = []
        for port in ("4000", "4001", "4002"):
            servers.append(self.running(1, "rping", "-s", "-a", SERVER, "-p", port, "-C", "300"))
            listed = ("sed", "-n", f"/service.{0x0106 << 16 | int(port)}/p", "/proc/net/unix")
            self.wait_for_server(listed)
        taken = self.output(1, "rping", "-s", "-a", SERVER, "-p", "4001", status=255)
        self.assertIn("Address already in use", taken)
        clients = [self.running(0, "rping", "-c", "-a", SERVER, "-p", port, "-C", "300") for port in ("4000", "4001")]
        for _ in range(3):  # whichever process answers for nobody does, and only for nobody
            refused = self.output(0, "rping", "-c", "-a", SERVER, "-p", "4003", "-C", "1", status=255)
            self.assertIn("RDMA_CM_EVENT_REJECTED", refused)
        for program in clients + servers[:2]:
            self.assert_ends(*program)
        self.output(0, "rping", "-c", "-a", SERVER, "-p", "4002", "-C", "300")  # the one that is left
        self.assert_ends(*servers[2])

    def test_what_two_of_them_say_to_each_other_holds(self):
        judge = self.heard()
        self.connected("rping", "-a", SERVER, "-C", "20", server=("-s",), client=("-c",))
        self.connected("udaddy", "-c", "3", client=("-s", SERVER))
        self.connected("ib_send_lat", "-R", "-F", "-n", "50", "-s", "8")
        self.connected("ucmatose", "-c", "3", client=("-s", SERVER))
        self.pair("ib_write_bw", "-F", "-x", "0", "-n", "5", "-s", "65536")
        holds, text = judge()
        self.assertTrue(holds, text)
        self.assertRegex(text, r"cm +holds")
        self.assertRegex(text, r"acknowledged +holds")

    def test_connections_that_cannot_be_made(self):
        with open(self.log, "w") as log:
            other = stage.favoured(self.cable.command(1, ["rping", "-s", "-a", SERVER, "-p", "4000"]), stdout=log, stderr=log,
                                   env=self.environment)
        try:
            refused = self.output(0, "rping", "-c", "-a", SERVER, "-p", "4001", "-C", "1", status=255)
            self.assertIn("RDMA_CM_EVENT_REJECTED", refused)
        finally:
            other.kill()
            other.wait()
        nobody = self.output(0, "rping", "-c", "-a", "10.8.0.77", "-C", "1", status=255)
        self.assertIn("RDMA_CM_EVENT_ADDR_ERROR", nobody)

    def test_a_child_uses_rdma_cm_beside_its_parent(self):
        shown = self.output(0, sys.executable, "-c", FORKS_CONNECTING)
        self.assertEqual(shown.splitlines(), ["parent 4000 listens", "child 4000 Address already in use", "child 4001 listens",
                                              "parent 4001 Address already in use", "child 4000 listens"])


if __name__ == "__main__":
    stage.main(live=False)
