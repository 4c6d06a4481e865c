"""The guest's root file system: the host's own RDMA and network programs, packed as an initramfs."""

import glob
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from fault import Fault

GUEST_FILES = Path(__file__).resolve().parent / "guest"

# name -> Debian package to name when it is missing
PROGRAMS = {
    "busybox": "busybox-static",
    "dash": "dash",
    # Not busybox's, which would run its own ip, tc and ping instead of the real ones.
    **dict.fromkeys(["setsid", "taskset"], "util-linux"),
    **dict.fromkeys(["timeout", "nice", "nohup", "env"], "coreutils"),
    **dict.fromkeys(["ip", "tc", "rdma", "ss"], "iproute2"),
    "ping": "iputils-ping",
    "ethtool": "ethtool",
    "tcpdump": "tcpdump",
    **dict.fromkeys(
        ["ibv_devices", "ibv_devinfo", "ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"],
        "ibverbs-utils",
    ),
    **dict.fromkeys(["rping", "ucmatose", "udaddy"], "rdmacm-utils"),
    **dict.fromkeys(
        [f"ib_{verb}_{kind}" for verb in ("write", "send", "read", "atomic") for kind in ("bw", "lat")],
        "perftest",
    ),
}

# What programs put into the guest later (ring_node, by the shared directory) are linked against,
# and libgcc_s, which pthread_exit loads at run time.
LIBRARIES = {
    "libibverbs.so.1": "libibverbs1",
    "librdmacm.so.1": "librdmacm1",
    "libstdc++.so.6": "libstdc++6",
    "libgcc_s.so.1": "libgcc-s1",
    "libm.so.6": "libc6",
}

# In Debian's kernel these are modules. crc32_generic is asked for by rxe at run time only.
MODULES = """virtio_pci virtio_net virtio_console virtio_rng 9p 9pnet_virtio af_packet 8021q crc32_generic
    ib_uverbs ib_umad rdma_ucm rdma_rxe
    sch_netem sch_tbf sch_prio sch_ingress cls_u32 cls_matchall act_gact""".split()


def build(out, kernel_tree=None):
    """Writes the initramfs to `out`; with `kernel_tree` (an unpacked kernel package) also its modules.

    It is not compressed: the kernel has no decompressor to compile, and boots sooner.
    """
    with tempfile.TemporaryDirectory(prefix="vnode-root-") as scratch:
        root = Path(scratch)
        _make_skeleton(root)
        _copy_programs(root)
        modules = _copy_modules(root, kernel_tree) if kernel_tree else []
        (root / "etc/vnode-modules").write_text("".join(f"{name}\n" for name in modules))
        part = Path(f"{out}.part")
        subprocess.run(
            f"set -o pipefail; find . | cpio --quiet -o -H newc -R 0:0 >{_quoted(part)}",
            shell=True, executable="/bin/bash", cwd=root, check=True,
        )
        part.replace(out)


def _quoted(path):
    return "'" + str(path).replace("'", "'\\''") + "'"


def _make_skeleton(root):
    for folder in ("usr/bin", "usr/lib/modules", "usr/lib64", "dev", "proc", "sys", "run", "tmp", "mnt", "root",
                   "etc/libibverbs.d"):
        (root / folder).mkdir(parents=True)
    (root / "usr/sbin").symlink_to("bin")
    for folder in ("bin", "sbin", "lib", "lib64"):
        (root / folder).symlink_to(f"usr/{folder}")
    (root / "etc/passwd").write_text(
        "root:x:0:0:root:/root:/bin/sh\ntcpdump:x:100:100::/tmp:/bin/false\n")
    (root / "etc/group").write_text("root:x:0:\ntcpdump:x:100:\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    shutil.copy(GUEST_FILES / "init", root / "init")
    for name in ("vnode-agent", "vnode-net", "vnode-task"):
        shutil.copy(GUEST_FILES / name, root / "usr/bin" / name)


def _copy_programs(root):
    path = os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin:/sbin:/bin"
    missing, wanted = set(), []
    for name, package in PROGRAMS.items():
        found = shutil.which(name, path=path)
        if found:
            shutil.copy(found, root / "usr/bin" / name)
            wanted.append(found)
        else:
            missing.add(package)
    known = _library_paths()
    for name, package in LIBRARIES.items():
        if name in known:
            wanted.append(known[name])
        else:
            missing.add(package)
    providers = glob.glob("/usr/lib/*/libibverbs/librxe-*.so")
    if not providers:
        missing.add("ibverbs-providers")
    if missing:
        raise Fault(f"missing Debian packages: {' '.join(sorted(missing))} (tools/packages --install vnode)")
    for file in _with_dependencies(wanted + providers):
        target = root / file.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    (root / "etc/libibverbs.d/rxe.driver").write_text("driver rxe\n")
    (root / "usr/bin/sh").symlink_to("dash")
    for applet in subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=True).stdout.split():
        link = root / "usr/bin" / applet
        if not link.exists():
            link.symlink_to("busybox")


def _library_paths():
    """Shared object name -> path, of the loader's cache, the machine's own architecture first."""
    listing = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    paths = {}
    for name, file in re.findall(r"^\s+(\S+) \(.*\) => (\S+)$", listing, re.MULTILINE):
        paths.setdefault(name, file)
    return paths


def _with_dependencies(files):
    """The shared objects among `files` and all that they and the programs among them load."""
    found = {file for file in files if ".so" in os.path.basename(file)}
    for file in files:
        listing = subprocess.run(["ldd", file], capture_output=True, text=True, check=False).stdout
        found.update(re.findall(r"(/\S+) \(0x", listing))
    return sorted(found)


def _copy_modules(root, kernel_tree):
    """Copies MODULES and what they need; returns the file names in loading order."""
    version = kernel_version(kernel_tree)
    listing = subprocess.run(
        ["/sbin/modprobe", "-d", kernel_tree, "-S", version, "--show-depends", "--all", *MODULES],
        capture_output=True, text=True, check=False,
    )
    if listing.returncode != 0:
        raise Fault(f"the kernel {version} lacks a module: {listing.stderr.strip()}")
    names = []
    for file in re.findall(r"^insmod (\S+)", listing.stdout, re.MULTILINE):
        name = os.path.basename(file).removesuffix(".xz")
        if name in names:
            continue
        names.append(name)
        target = root / "usr/lib/modules" / name
        if file.endswith(".xz"):
            target.write_bytes(subprocess.run(["xz", "-dc", file], capture_output=True, check=True).stdout)
        else:
            shutil.copy(file, target)
    return names


def kernel_version(kernel_tree):
    """Name of the one modules folder of an unpacked kernel package."""
    return next((Path(kernel_tree) / "lib/modules").iterdir()).name
