"""The two kinds of guest: User-mode Linux, and QEMU without hardware virtualisation."""

import mmap
import os
import re
import shutil
import tempfile
from pathlib import Path

import build
import channel
from fault import Fault

MOUNT_SHARE = {
    "uml": "mount -t hostfs none /mnt",
    "qemu": "mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 share /mnt",
}


def command_line(folder, name, options):
    """Returns (command, extra environment, file descriptors to inherit and then close)."""
    return {"uml": _uml, "qemu": _qemu}[options["kind"]](folder, name, options)


def _uml(folder, name, options):
    command = [
        build.kernel_file("uml"), f"mem={options['mem']}M", f"initrd={build.initramfs_file('uml')}",
        f"uml_dir={folder}", f"umid={name}", f"hostfs={folder}/share",
        "con=null", "con0=null,fd:1", "ssl=null", "quiet",
        # An interrupt that comes just before the kernel falls asleep is not looked at before the next one (os_idle_sleep() of Linux
        # 6.1, arch/um/os-Linux/time.c, holds back the timer's signal only). So there is a tick every 10 ms, asleep or not: without
        # it a busy machine's guest heard nothing for up to two seconds now and then.
        "nohz=off",
        f"VNODE_NAME={name}", f"VNODE_MHZ={_host_mhz()}", "VNODE_LINES=" + _devices("ttyS", 0),
    ]
    inherited = []
    for number in range(channel.LINES):
        base = channel.line_base(folder, number)
        # Both ways, so that the line outlives every host program that used it.
        ends = [os.open(f"{base}.{way}", os.O_RDWR) for way in ("in", "out")]
        inherited += ends
        command.append(f"ssl{number}=fd:{ends[0]},fd:{ends[1]}")
    if options["vhost"]:
        if re.search(r"[\s:]", options["vhost"]):
            raise Fault(f"{options['vhost']}: the kernel's command line takes no space or colon in this path", 2)
        command.append(f"virtio_uml.device={options['vhost']}:1")  # 1: a network device
    # The guest's memory is a file here, which the vhost-user server maps.
    return [str(word) for word in command], {"TMPDIR": _memory_folder(options["mem"])}, inherited


def _qemu(folder, name, options):
    words = "console=ttyS0 quiet panic=-1 mitigations=off"
    words += " clearcpuid=rep_good"  # `rep movs` is slow when emulated
    words += f" VNODE_NAME={name} VNODE_MHZ={_host_mhz()} VNODE_LINES=" + _devices("vport0p", 1)
    command = [
        "qemu-system-x86_64", "-nodefaults", "-display", "none", "-monitor", "none", "-no-reboot",
        "-machine", "q35,memory-backend=memory", "-accel", "tcg,thread=multi",
        "-cpu", "max,-pclmulqdq,-erms,-fsrm", "-m", options["mem"],
        "-object", f"memory-backend-memfd,id=memory,size={options['mem']}M,share=on",
        "-kernel", build.kernel_file("qemu"), "-initrd", build.initramfs_file("qemu"), "-append", words,
        "-serial", f"file:{folder}/console",
        "-device", "virtio-serial-pci",  # the first virtio device: its ports are vport0p1 and so on
        "-virtfs", f"local,path={folder}/share,mount_tag=share,security_model=none,multidevs=remap",
    ]
    for number in range(channel.LINES):
        command += ["-chardev", f"pipe,id=line{number},path={channel.line_base(folder, number)}",
                    "-device", f"virtserialport,chardev=line{number},nr={number + 1}"]
    if options["vhost"]:
        socket = options["vhost"].replace(",", ",,")
        # The dataplane carries bare frames, so nothing may be left to an offload. vectors=0: QEMU 7.2
        # crashes in msix_set_vector_notifiers with vhost-user and no KVM.
        offloads = ["csum", "gso", "guest_csum", "mrg_rxbuf=on"] + [
            f"{side}_{what}" for side in ("guest", "host") for what in ("tso4", "tso6", "ufo", "ecn")]
        device = ["virtio-net-pci", "netdev=net", f"mac={options['mac']}", "romfile=", "vectors=0",
                  "rx_queue_size=1024", "tx_queue_size=1024"]
        device += [word if "=" in word else f"{word}=off" for word in offloads]
        command += ["-chardev", f"socket,id=vhost,path={socket}", "-netdev", "vhost-user,id=net,chardev=vhost,queues=1",
                    "-device", ",".join(device)]
    return [str(word) for word in command], {}, []


def _devices(prefix, first):
    return ",".join(f"{prefix}{first + number}" for number in range(channel.LINES))


def _host_mhz():
    found = re.search(r"^cpu MHz\s*: (\d+)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found.group(1) if found else "1000"


def _memory_folder(megabytes):
    """A folder for the guest's memory: in RAM if that is possible, mappable as program text, and large enough."""
    for folder in ("/dev/shm", os.environ.get("TMPDIR"), "/tmp", "/var/tmp"):
        if folder and _takes_memory(folder, megabytes):
            return folder
    raise Fault(f"no folder can hold the guest's memory of {megabytes} MB: tried /dev/shm, $TMPDIR, /tmp, /var/tmp")


def _takes_memory(folder, megabytes):
    try:
        if shutil.disk_usage(folder).free < megabytes << 20:
            return False
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.truncate(mmap.PAGESIZE)
            mmap.mmap(probe.fileno(), mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_EXEC).close()
        return True
    except OSError:
        return False
