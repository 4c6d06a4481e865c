"""DPDK's own dpdk-testpmd as a measure: what forwarding with swapped MAC addresses costs a core. Needs neither root nor huge pages."""

import os
import re
import select
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress

from live_run import Failed, favour

PROGRAM, PACKAGE = "dpdk-testpmd", "dpdk-dev"
LIMIT = 60  # seconds for it to start or to answer
PROMPT, END = "testpmd> ", "Done.\r\n"
# Buffers as the emulator's own port has them (dataplane/port/dpdk_open.cc).
POOL_CACHE, BUFFER = 128, 128 + 9216
HOT_BUFFERS = 2047
# Without a core's cache, which would hand out the newest again, buffers come in turn.
COLD_BUFFERS = 65536
VHOST_BURSTS = 4  # of 32 frames that go to and fro


def missing():
    """What this machine lacks; None if nothing."""
    return None if shutil.which(PROGRAM) else f"{PROGRAM} (Debian package {PACKAGE}: tools/packages --install bench)"


class Testpmd:
    """One process with one port and one forwarding core, ready when the constructor returns."""

    def __init__(self, device, mode, cpu, main, megabytes, *options):
        command = [PROGRAM, "-v", "--lcores", f"0@{main},1@{cpu}", "--no-huge", "--no-shconf", "-m", megabytes, "--no-pci",
                   "--no-telemetry", f"--vdev={device}", "--", "-i", f"--forward-mode={mode}", "--nb-cores=1",
                   "--record-core-cycles", f"--mbuf-size={BUFFER}", *options]
        self.read = ""
        self.output, end = os.openpty()  # it flushes its lines to a terminal only
        try:
            self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=end, stderr=end,
                                            start_new_session=True)
        except BaseException:
            os.close(self.output)
            raise
        finally:
            os.close(end)
        try:
            favour(self.process.pid)
            started = self.until(PROMPT)
            version = re.search(r"RTE Version: '(.*?)'", started)
            self.version = version[1] if version else "unknown"
            if "Configuring Port 0" not in started:
                raise Failed(f"{PROGRAM} has no port {device}:\n{started}")
            self.worker = self.find_worker()
        except BaseException:
            self.close()
            raise

    def find_worker(self):
        tasks = f"/proc/{self.process.pid}/task"
        for thread in os.listdir(tasks):
            with open(f"{tasks}/{thread}/comm", encoding="ascii") as file:
                if "worker" in file.read():
                    return f"{tasks}/{thread}/schedstat"
        raise Failed(f"{PROGRAM} has no forwarding thread")

    def until(self, mark):
        """What it prints up to `mark`, and that."""
        deadline = time.monotonic() + LIMIT
        while mark not in self.read:
            left = deadline - time.monotonic()
            data = b""
            if left > 0 and select.select([self.output], [], [], left)[0]:
                try:
                    data = os.read(self.output, 65536)
                except OSError:  # it has ended
                    pass
            if not data:
                raise Failed(f"{PROGRAM} {'does not answer' if left <= 0 else 'ended'}:\n{self.read}")
            self.read += data.decode(errors="replace")
        end = self.read.index(mark) + len(mark)
        text, self.read = self.read[:end], self.read[end:]
        return text

    def say(self, command):
        try:
            self.process.stdin.write(f"{command}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed(f"{PROGRAM} ended:\n{self.read}") from None

    def on_cpu(self):
        """Nanoseconds that the forwarding thread has had a CPU. It sleeps while nothing is forwarded."""
        with open(self.worker, encoding="ascii") as file:
            return int(file.read().split()[0])

    def start(self, command="start"):
        self.began = self.on_cpu()
        self.say(command)

    def stop(self):
        """Ends forwarding; returns what testpmd printed, and the time that the forwarding thread had a CPU."""
        self.say("stop")
        printed = self.until(END)
        return printed, self.on_cpu() - self.began

    def close(self):
        try:
            self.say("quit")
            self.process.wait(LIMIT)
        except (Failed, subprocess.TimeoutExpired):
            pass
        finally:
            self.process.kill()
            self.process.wait()
            with suppress(BrokenPipeError):
                self.process.stdin.close()
            os.close(self.output)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def forwarded(printed):
    """(packets, cycles of each) of what it prints at a stop. Failed: where it lost some, or forwarded none."""
    total = printed[printed.find("Accumulated forward statistics"):]
    numbers = {key: int(value) for key, value in re.findall(r"([RT]X-(?:packets|dropped)): (\d+)", total)}
    cycles = re.search(r"CPU cycles/packet=([\d.]+)", total)
    if not numbers.get("RX-packets") or cycles is None:
        raise Failed(f"{PROGRAM} forwarded nothing:\n{printed}")
    if numbers["RX-packets"] != numbers["TX-packets"] or numbers["RX-dropped"] or numbers["TX-dropped"]:
        raise Failed(f"{PROGRAM} lost packets:\n{printed}")
    return numbers["RX-packets"], float(cycles[1])


def null_port(frame_bytes, cold, cpu, main, seconds):
    """(ns of a packet, version) of forwarding through a port that has always frames to give and takes all (net_null).

    The time is that which the thread had on its CPU: every round of its loop forwards a burst, so other programs' time is not in it.
    """
    buffers, cache = (COLD_BUFFERS, 0) if cold else (HOT_BUFFERS, POOL_CACHE)
    megabytes = 64 + buffers * (BUFFER + 256) // (1 << 20) * 9 // 8
    with Testpmd(f"net_null0,size={frame_bytes}", "macswap", cpu, main, megabytes, f"--mbcache={cache}",
                 f"--total-num-mbufs={buffers}") as program:
        program.start()
        time.sleep(seconds)
        printed, nanoseconds = program.stop()
        return nanoseconds / forwarded(printed)[0], program.version


def vhost_port(frame_bytes, cpu, main, seconds, hz):
    """(ns of a packet, version) at the emulator's end of a vhost-user port, whose guest is a second testpmd with a virtio-user port.

    The guest's core is `main`, too. The time is the cycles of those rounds of the loop that forwarded something.
    """
    options = [f"--mbcache={POOL_CACHE}", f"--total-num-mbufs={HOT_BUFFERS}"]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        socket = f"{folder}/port"
        with Testpmd(f"net_vhost0,iface={socket},queues=1", "macswap", cpu, main, 96, *options) as host, \
                Testpmd(f"net_virtio_user0,path={socket},queues=1", "io", main, cpu, 96, f"--txpkts={frame_bytes}", *options) as guest:
            host.start()
            guest.start(f"start tx_first {VHOST_BURSTS}")
            time.sleep(seconds)
            printed, _ = host.stop()
            guest.stop()
            return forwarded(printed)[1] * 1e9 / hz, host.version
