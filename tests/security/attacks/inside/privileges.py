"""Attacks 9 and 10: what root inside may do, and the devices it has."""

import errno
import os
import stat

from probing import REFUSED, attack, opened, read, status_of, tried

NAMES = """
CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST
NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE
SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM
BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE
""".split()
GIVEN = set("AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID SYS_CHROOT".split())


@attack(9)
def capabilities():
    own = status_of()
    held = {kind: int(bits, 16) for kind, bits in own.items() if kind.startswith("Cap")}
    # Not every kernel tells of all kinds; one that told of none would have nothing open.
    assert {"CapBnd", "CapEff"} <= held.keys()
    for bit, name in enumerate(NAMES):
        kinds = [kind for kind, bits in held.items() if bits >> bit & 1]
        if name not in GIVEN:
            yield name, opened(", ".join(kinds)) if kinds else REFUSED


@attack(9)
def identity():
    for name in ("uid_map", "gid_map"):
        spans = [tuple(map(int, line.split())) for line in read(f"/proc/self/{name}").splitlines()]
        # The machine's own users are below; whoever is mapped to one of them is that user outside.
        foreign = [span for span in spans if span[1] < 65536]
        yield f"users of the machine in {name}", opened(str(foreign[0])) if foreign else REFUSED


HARMLESS = {"full": (1, 7), "null": (1, 3), "random": (1, 8), "tty": (5, 0), "urandom": (1, 9), "zero": (1, 5), "ptmx": (5, 2)}
BLOCK, CHARACTER = (254, 0, stat.S_IFBLK), (1, 11, stat.S_IFCHR)


@attack(10)
def nodes():
    for at, folders, names in os.walk("/dev"):
        for name in names:
            path = os.path.join(at, name)
            about = os.lstat(path)
            is_node = stat.S_ISBLK(about.st_mode) or stat.S_ISCHR(about.st_mode)
            if not is_node or at == "/dev/pts":
                continue
            number = (os.major(about.st_rdev), os.minor(about.st_rdev))
            if HARMLESS.get(name) != number:
                yield f"device {path}", opened(str(number))
    for name in ("kvm", "fuse", "mem", "kmsg", "net/tun", "loop-control", "vhost-net"):
        yield f"/dev/{name}", tried(lambda: os.lstat(f"/dev/{name}") and None)


@attack(10)
def new_nodes():
    for folder in ("/tmp", "/dev", "/dev/shm", "/run", "/root"):
        for major, minor, kind in (BLOCK, CHARACTER):
            name = "block" if kind == stat.S_IFBLK else "character"
            yield f"a {name} device in {folder}", tried(lambda: make(f"{folder}/attack-{name}", kind, major, minor))


def make(path, kind, major, minor):
    """A node that nothing is behind is worth nothing, whoever may make it."""
    os.mknod(path, 0o600 | kind, os.makedev(major, minor))
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENODEV):
            raise
    finally:
        os.unlink(path)
