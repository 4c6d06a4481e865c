"""How a soft NIC is joined to the emulator or to another one. What a tool has to know of a port stands in one class of this file:
`device` for the configuration, `command()` and `environment()` for a program that is to use the soft NIC, `understudy()` for the emulator."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from live_run import Failed

MTU = "4200"
WITH_SOFT_NIC = Path(__file__).resolve().parent.parent / "with_soft_nic"
# Root in a user namespace of its own, as any user can be.
OWN_NETWORK = ["unshare", "--user", "--map-root-user", "--net"]


def _ip(*words):
    done = subprocess.run(["ip", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"ip {' '.join(words)}: {done.stdout.strip()}")


def preload(build):
    return {"LD_PRELOAD": str(build / "tools/soft_nic/libunderstudy_soft_nic.so")}


class Veth:
    """Packet sockets on a cable: two network namespaces with one end of a veth pair each, `soft0`. Needs root,
    in a user namespace at least, and its network and mount namespaces."""

    device = "net_af_packet0,iface=soft0"

    @staticmethod
    def missing():
        """What this machine or user lacks for it; None if nothing."""
        if os.geteuid() != 0:
            return "root, or user namespaces: it makes network namespaces, and packet sockets need CAP_NET_RAW"
        lacking = [program for program in ("ip", "ethtool") if shutil.which(program) is None]
        return f"the program {lacking[0]}" if lacking else None

    def __init__(self, near, far=None, offloads=False):
        """Addresses of the near end, where the programs are, and of the far end; none where the emulator is."""
        self.addresses = [near, far]
        self.ends = [f"soft-{os.getpid()}-{end}" for end in ("near", "far")]
        try:
            for end in self.ends:
                _ip("netns", "add", end)
            _ip("link", "add", "soft0", "netns", self.ends[0], "type", "veth", "peer", "name", "soft0", "netns", self.ends[1])
            for number, (end, address) in enumerate(zip(self.ends, self.addresses)):
                if address is not None:
                    _ip("-n", end, "addr", "add", f"{address}/24", "dev", "soft0")
                if not offloads:  # nobody at the other end would complete a checksum
                    subprocess.run(self.at(number, ["ethtool", "-K", "soft0", "tx", "off"]), stdout=subprocess.DEVNULL, check=True)
                _ip("-n", end, "link", "set", "soft0", "mtu", MTU, "up")
                _ip("-n", end, "link", "set", "lo", "up")
        except BaseException:
            self.close()
            raise

    def close(self):
        for end in self.ends:
            subprocess.run(["ip", "netns", "del", end], stderr=subprocess.DEVNULL, check=False)

    def at(self, end, words):
        return ["ip", "netns", "exec", self.ends[end], *(str(word) for word in words)]

    def command(self, build, words, end=0):
        settings = {**preload(build), "UNDERSTUDY_SOFT_NIC": "soft0", "UNDERSTUDY_SOFT_NIC_ADDRESS": self.addresses[end]}
        return self.at(end, ["env", *(f"{name}={value}" for name, value in settings.items()), *words])

    def understudy(self, build, folder):
        """A program that is the emulator at the far end."""
        program = folder / "understudy"
        program.write_text(f'#!/bin/sh\nexec {shlex.join(self.at(1, [build / "ctrl/understudy"]))} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        return program


class Vhost:
    """The emulator's vhost-user socket; beside it a TAP in the program's own network namespace, for what it says by TCP."""

    @staticmethod
    def missing():
        tried = subprocess.run([*OWN_NETWORK, "ip", "tuntap", "add", "dev", "soft0", "mode", "tap"], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, check=False)
        return None if tried.returncode == 0 else f"user namespaces and TAPs in them: {tried.stdout.strip()}"

    def __init__(self, near, socket):
        self.near, self.socket = near, socket
        self.device = f"net_vhost0,iface={socket},queues=1"

    def close(self):
        pass

    def command(self, build, words):
        return [str(word) for word in (WITH_SOFT_NIC, "--build", build, "--socket", self.socket, "--address", f"{self.near}/24",
                                       "--mtu", MTU, *words)]

    def understudy(self, build, _folder):
        return build / "ctrl/understudy"
