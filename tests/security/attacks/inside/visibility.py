"""Attacks 5, 8 and 11: what a sandbox sees of the kernel, of the machine and of its neighbours."""

import errno
import os
import stat
import sys

from probing import REFUSED, attack, files_below, is_hidden, is_open, opened, opens, read, status_of, tried, worst

TELLING = """
/proc/kcore /proc/kallsyms /proc/timer_list /proc/sched_debug /proc/modules /proc/interrupts
/proc/slabinfo /proc/vmallocinfo /proc/pagetypeinfo /proc/kpagecount /proc/kpageflags /proc/cmdline /proc/diskstats
/proc/locks /proc/partitions /proc/swaps /proc/keys /proc/latency_stats /proc/mtrr
""".split()
FOLDERS = """
/proc/scsi /proc/acpi /proc/driver /proc/fs /proc/pressure /proc/asound /proc/device-tree /sys/firmware /sys/kernel
/sys/kernel/debug /sys/kernel/security /sys/kernel/tracing /sys/fs/bpf /sys/fs/pstore /sys/module /sys/block /sys/bus
/sys/class/block /sys/power /sys/hypervisor /sys/dev /sys/devices/virtual /sys/devices/platform
""".split()


@attack(5)
def telling_files():
    for path in TELLING:
        yield path, tried(lambda: read(path, 1) != "" or nothing(path))
    # Reading takes lines away from whoever collects them.
    for path in ("/proc/kmsg", "/dev/kmsg", "/dev/mem", "/dev/port"):
        yield path, opens(path, os.O_RDONLY)
    for path in FOLDERS:
        yield path, tried(lambda: len(os.listdir(path)) > 0 or nothing(path))


def nothing(path):
    """Hidden is what something was laid over."""
    is_hidden = path in [point for _, point in mounts()]
    raise OSError(errno.EACCES if is_hidden else errno.ENOENT, "shows nothing", path)


@attack(5)
def pressure_triggers():
    """Thousands of them keep a sandbox from being ended."""

    def register(path):
        file = os.open(path, os.O_RDWR)
        try:
            os.write(file, b"some 150000 2000000\0")
        finally:
            os.close(file)

    places = [path for path in files_below("/sys/fs/cgroup") if path.endswith(".pressure")]
    for path in [f"/proc/pressure/{name}" for name in ("cpu", "memory", "io")] + places[:50]:
        yield f"trigger at {path}", tried(lambda: register(path))


@attack(8)
def files_of_others():
    """CVE-2024-21626: a descriptor that was left open leads out. So does a program that is written to while it runs."""
    for pid in numbers():
        folder = f"/proc/{pid}/fd"
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            if leads_out(f"{folder}/{name}"):
                yield "folders that processes hold open", opened(f"{pid} holds {os.readlink(f'{folder}/{name}')}")
                return
    yield "folders that processes hold open", REFUSED


def leads_out(path):
    """By its own name, a folder of another root is another one here, or none."""
    try:
        name, about = os.readlink(path), os.stat(path)
    except OSError:
        return False
    if not stat.S_ISDIR(about.st_mode) or name.endswith(" (deleted)"):
        return False
    try:
        here = os.stat(name)
    except OSError:
        return True
    return (here.st_dev, here.st_ino) != (about.st_dev, about.st_ino)


@attack(8)
def programs_that_run():
    """CVE-2019-5736: whoever writes to the program that the machine starts inside is started next."""
    yield "programs of the guest", worst(opens(path, os.O_WRONLY) for path in files_below("/.sandlot/bin"))
    for path in ("/.sandlot/x", "/.sandlot/bin/x"):
        yield f"make {path}", tried(lambda: os.close(os.open(path, os.O_CREAT | os.O_WRONLY)))


def mounts():
    for line in read("/proc/self/mountinfo", 1 << 20).splitlines():
        words = line.split()
        major, minor = words[2].split(":")
        yield os.makedev(int(major), int(minor)), words[4]


def numbers():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


@attack(11)
def processes():
    def kernel_threads():
        seen = [pid for pid in numbers() if "VmSize" not in status_of(pid) and status_of(pid).get("State", "Z")[0] != "Z"]
        if not seen:
            raise OSError(errno.EPERM, "none")
        return f"{len(seen)} threads of the kernel"

    def from_elsewhere():
        names = {status_of(pid)["Name"] for pid in numbers() if pid != os.getpid()}
        server = names & {"bun", "crun", "criu", "systemd", "dockerd", "containerd", "sshd", "npm test"}
        if not server:
            raise OSError(errno.EPERM, "none")
        return ", ".join(sorted(server))

    def other_roots():
        own = os.stat("/")
        for pid in numbers():
            try:
                other = os.stat(f"/proc/{pid}/root/")
            except OSError:
                continue
            if (own.st_dev, own.st_ino) != (other.st_dev, other.st_ino):
                return f"that of {pid}"
        raise OSError(errno.EPERM, "none")

    yield "threads of the kernel", tried(kernel_threads)
    yield "programs of the machine", tried(from_elsewhere)
    yield "another root, by a process in it", tried(other_roots)


@attack(11)
def doors_of_daemons():
    for path in """
        /var/run/docker.sock /run/docker.sock /run/containerd/containerd.sock /run/crio/crio.sock /run/podman/podman.sock
        /run/systemd/private /run/dbus/system_bus_socket /var/lib/sandlot /var/cache/sandlot
    """.split():
        yield path, tried(lambda: os.stat(path) and None)
    # Names of sockets that have no file are those of the network namespace.
    others = [line.split()[-1] for line in read("/proc/net/unix", 1 << 20).splitlines()[1:] if "@" in line]
    yield "sockets without a file", opened(others[0]) if others else REFUSED


@attack(11)
def neighbours():
    """Their ids, and whatever else is given as an argument, stand in no file and no name of /proc and /sys."""
    for at, word in enumerate(sys.argv[2:]):
        yield f"neighbour {at + 1}", hunt(word.encode())


def hunt(word):
    looked = 0
    tops = [f"/proc/{name}" for name in os.listdir("/proc") if not name.isdigit() and "self" not in name]
    for top in [*tops, "/sys"]:
        for path in [top] if os.path.isfile(top) else files_below(top):
            if word in path.encode():
                return opened(f"named in {path}")
            if path in ("/proc/kmsg", "/proc/kcore") or path.startswith("/sys/kernel/debug"):
                continue
            try:
                if word in read(path, 1 << 20).encode():
                    return opened(f"found in {path}")
            except OSError:
                continue
            looked += 1
    return REFUSED if looked > 100 else opened(f"only {looked} files could be looked at")
