"""Builds what a guest boots from, once: a kernel and an initramfs per kind, in the user's cache.

Needs no root: Debian's packages are downloaded with apt-get and unpacked with dpkg -x.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import initramfs
from fault import Fault

HERE = Path(__file__).resolve().parent
UML_CONFIG = HERE / "uml.config"
SOURCE_PACKAGE = "linux-source-6.1"
IMAGE_PACKAGE = "linux-image-amd64"
# More than half of the kernel's files would only be unpacked and deleted; but all its Kconfig files are read.
_OTHER_ARCHITECTURES = """alpha arc arm arm64 csky hexagon ia64 loongarch m68k microblaze mips nios2 openrisc parisc
    powerpc riscv s390 sh sparc xtensa""".split()
_OTHER_DRIVERS = "gpu media staging scsi net/ethernet net/wireless".split()
UNUSED_SOURCE = [
    *(f"*/arch/{name}/*.{kind}" for name in _OTHER_ARCHITECTURES for kind in ("[chS]", "dts*")),
    *(f"*/drivers/{name}/*.[ch]" for name in _OTHER_DRIVERS),
    "*/sound/*.[ch]", "*/Documentation/*/*", "*/tools/*",
]
APT_LISTS = [Path("/var/lib/apt/lists"), Path("/var/lib/dpkg/status")]
SOURCE_TARBALL = Path("/usr/src") / f"{SOURCE_PACKAGE}.tar.xz"


def cache_dir():
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "understudy" / "vnode"


def kernel_file(kind):
    return cache_dir() / kind / "kernel"


def initramfs_file(kind):
    return cache_dir() / kind / "initramfs.cpio"


def build(kind, say):
    """Builds what is missing or out of date for `kind` ("uml" or "qemu"); tells progress through `say`."""
    with _lock(kind):
        try:
            stamp = _kernel_stamp(kind)
        except Fault as unknown:
            if not kernel_file(kind).exists():
                raise
            say(f"{kind}: keeping the kernel that is there: {unknown}")
            stamp = None
        if stamp and _stale(kernel_file(kind), stamp):
            with _scratch(kind) as scratch:
                {"uml": _build_uml, "qemu": _unpack_qemu}[kind](scratch, say)
            _write_stamp(kernel_file(kind), stamp)
        _refresh_initramfs(kind, say)


def ensure(kind, say):
    """What a start needs: builds when nothing is there, and follows changes of the host's programs."""
    if not kernel_file(kind).exists():
        build(kind, say)
        return
    with _lock(kind):
        _refresh_initramfs(kind, say)


def _refresh_initramfs(kind, say):
    # dpkg's status file changes with every installed or upgraded package, so with every program we copy.
    sources = [HERE / "initramfs.py", *sorted(initramfs.GUEST_FILES.iterdir()), kernel_file(kind)]
    status = Path("/var/lib/dpkg/status").stat()
    stamp = f"{_digest(sources)} {status.st_mtime_ns}"
    out = initramfs_file(kind)
    if _stale(out, stamp):
        begin = time.monotonic()
        tree = cache_dir() / "qemu" / "tree"
        initramfs.build(out, str(tree) if kind == "qemu" else None)
        _write_stamp(out, stamp)
        say(f"{kind}: initramfs packed in {time.monotonic() - begin:.1f} s")


def _build_uml(scratch, say):
    begin = time.monotonic()
    tarball = SOURCE_TARBALL
    if not tarball.exists():
        say(f"uml: downloading {SOURCE_PACKAGE}")
        _download(SOURCE_PACKAGE, scratch)
        tarball = scratch / "deb" / str(SOURCE_TARBALL).lstrip("/")
    say("uml: unpacking the kernel's source")
    _run(["tar", "-C", scratch, "-I", "xz -T0", "-xf", tarball, *(f"--exclude={pattern}" for pattern in UNUSED_SOURCE)],
         "unpack the kernel's source")
    source, objects = scratch / SOURCE_PACKAGE, scratch / "objects"
    objects.mkdir()
    make = ["make", "-s", "-C", source, f"O={objects}", "ARCH=um"]
    _run([*make, "allnoconfig"], "configure the kernel", KCONFIG_ALLCONFIG=str(UML_CONFIG))
    _check_config(objects / ".config")
    say("uml: compiling the kernel, 2 to 3 minutes on 2 cores")
    _run([*make, f"-j{len(os.sched_getaffinity(0))}", "linux"], "compile the kernel")
    _run(["strip", "-o", scratch / "kernel", objects / "linux"], "strip the kernel")
    kernel_file("uml").parent.mkdir(parents=True, exist_ok=True)
    shutil.move(scratch / "kernel", kernel_file("uml"))
    say(f"uml: kernel built in {time.monotonic() - begin:.0f} s")


def _check_config(config):
    """A kernel whose Kconfig dropped one of our options would fail much later and less clearly."""
    have = set(config.read_text().splitlines())
    lost = [line for line in UML_CONFIG.read_text().splitlines() if line.startswith("CONFIG_") and line not in have]
    if lost:
        raise Fault(f"this kernel source does not take the options {' '.join(lost)} of {UML_CONFIG}")


def _unpack_qemu(scratch, say):
    begin = time.monotonic()
    package = _image_package()
    say(f"qemu: downloading {package}")
    _download(package, scratch)
    tree = scratch / "deb"
    if not list(tree.glob("lib/modules/*/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko*")):
        raise Fault(f"{package} has no rdma_rxe module")
    version = initramfs.kernel_version(tree)
    _run(["/sbin/depmod", "-b", tree, version], "list the kernel's modules")
    target = cache_dir() / "qemu"
    target.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target / "tree", ignore_errors=True)
    shutil.move(tree, target / "tree")
    shutil.copy(target / "tree" / "boot" / f"vmlinuz-{version}", kernel_file("qemu"))
    say(f"qemu: kernel {version} unpacked in {time.monotonic() - begin:.0f} s")


def _image_package():
    """The package that the meta package stands for; the cloud flavour would lack Soft-RoCE."""
    text = _apt_cache("show", IMAGE_PACKAGE)
    found = re.search(r"^Depends:.*?\b(linux-image-[\w.+-]+)", text, re.MULTILINE)
    if not found or "-cloud-" in found.group(1):
        raise Fault(f"cannot tell which kernel {IMAGE_PACKAGE} stands for: try apt-get update")
    return found.group(1)


def _kernel_stamp(kind):
    if kind == "qemu":
        return _package_version(_image_package())
    version = SOURCE_TARBALL.stat().st_mtime_ns if SOURCE_TARBALL.exists() else _package_version(SOURCE_PACKAGE)
    return f"{version} {_digest([UML_CONFIG])}"


def _package_version(package):
    found = re.search(r"^Version: (\S+)", _apt_cache("show", package), re.MULTILINE)
    if not found:
        raise Fault(f"apt knows no package {package}: try apt-get update")
    return f"{package} {found.group(1)}"


def _apt_cache(*words):
    """What apt-cache says, which takes seconds: kept until the package lists change."""
    stamp = " ".join(str(path.stat().st_mtime_ns) if path.exists() else "none" for path in APT_LISTS)
    kept = cache_dir() / "-".join(["apt", *words])
    if not _stale(kept, stamp):
        return kept.read_text(encoding="utf-8")
    told = subprocess.run(["apt-cache", "--no-all-versions", *words], capture_output=True, text=True, check=False)
    if told.returncode == 0:
        kept.write_text(told.stdout, encoding="utf-8")
        _write_stamp(kept, stamp)
    return told.stdout


def _download(package, scratch):
    """Downloads a Debian package and unpacks it, not installs it, to scratch/deb."""
    # As root, apt would drop to its own user, who may not write here.
    _run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package],
         f"download {package} (is the package list there? apt-get update)", cwd=scratch)
    (archive,) = scratch.glob("*.deb")
    _run(["dpkg", "-x", archive, scratch / "deb"], f"unpack {package}")
    archive.unlink()


def _run(command, purpose, cwd=None, **environment):
    log = cache_dir() / "build.log"
    with open(log, "ab") as out:
        done = subprocess.run([str(word) for word in command], cwd=cwd, stdin=subprocess.DEVNULL, stdout=out,
                              stderr=out, env={**os.environ, **environment}, check=False)
    if done.returncode != 0:
        tail = log.read_text(errors="replace").splitlines()[-8:]
        raise Fault(f"could not {purpose}; the last lines of {log}:\n  " + "\n  ".join(tail))


@contextmanager
def _lock(kind):
    cache_dir().mkdir(parents=True, exist_ok=True)
    with open(cache_dir() / f"{kind}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _scratch(kind):
    """A folder for a build, in the cache (compiling a kernel takes 1 GB, too much for some /tmp)."""
    scratch = cache_dir() / f"{kind}.scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    (cache_dir() / "build.log").unlink(missing_ok=True)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _digest(files):
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _stamp_file(product):
    return product.with_name(product.name + ".stamp")


def _stale(product, stamp):
    file = _stamp_file(product)
    return not product.exists() or not file.exists() or file.read_text() != stamp


def _write_stamp(product, stamp):
    _stamp_file(product).write_text(stamp)
