"""Attacks 1 to 4: the kernel's surface, by system calls. Arguments are such that a call that passes does no harm."""

import ctypes
import errno
import os
import socket

from probing import ABSENT, ARM, attack, call, libc, of_errno, opened, read, tried, worst

UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
TYPES = range(1, 7)
FAMILIES = {
    3: "AX.25", 4: "IPX", 5: "AppleTalk", 6: "NET/ROM", 8: "ATM", 9: "X.25", 11: "Rose", 15: "IPsec keys", 17: "packet",
    18: "Ash", 19: "Econet", 20: "ATM SVC", 21: "RDS", 23: "IrDA", 24: "PPPoX", 26: "LLC", 27: "InfiniBand", 28: "MPLS",
    29: "CAN", 30: "TIPC", 31: "Bluetooth", 32: "IUCV", 33: "RxRPC", 34: "ISDN", 35: "Phonet", 36: "802.15.4",
    37: "CAIF", 38: "crypto (AF_ALG)", 39: "NFC", 40: "vsock", 41: "KCM", 42: "QIPCRTR", 43: "SMC", 44: "XDP", 45: "MCTP",
}
NETLINKS = {
    1: "unused", 2: "usersock", 3: "firewall", 4: "socket diagnosis", 5: "nflog", 6: "XFRM", 7: "SELinux", 8: "iSCSI",
    9: "audit", 10: "routes lookup", 11: "connector", 12: "netfilter", 14: "dnrt", 15: "kernel events", 16: "generic",
    18: "SCSI", 19: "ecryptfs", 20: "RDMA", 21: "crypto", 22: "SMC",
}
PROTOCOLS = {2: "IGMP", 33: "DCCP", 46: "RSVP", 47: "GRE", 50: "ESP", 51: "AH", 103: "PIM", 132: "SCTP", 136: "UDP-Lite",
             255: "raw", 262: "MPTCP"}
SOCKET, SOCKETPAIR = (198, 199) if ARM else (41, 53)
NO_FAMILY = (errno.EAFNOSUPPORT, errno.EPERM)
NO_PROTOCOL = (errno.EPROTONOSUPPORT, errno.EPERM, errno.EACCES)


def makes(number, family, kind, protocol, refusals):
    """In this process: what is made is closed again."""
    pair = (ctypes.c_int * 2)()
    more = [pair] if number == SOCKETPAIR else []
    ctypes.set_errno(0)
    made = libc.syscall(ctypes.c_long(number), ctypes.c_long(family), ctypes.c_long(kind), ctypes.c_long(protocol), *more)
    if made == -1:
        return of_errno(ctypes.get_errno(), refusals)
    for file in pair if more else [made]:
        os.close(file)
    return opened("made")


@attack(1)
def families():
    for family, name in FAMILIES.items():
        yield f"socket of {name}", worst(makes(SOCKET, family, kind, 0, NO_FAMILY) for kind in TYPES)
    for protocol, name in NETLINKS.items():
        yield f"netlink socket, protocol {name}", worst(makes(SOCKET, NETLINK, kind, protocol, NO_PROTOCOL) for kind in (2, 3))
    for protocol, name in PROTOCOLS.items():
        kinds = ((INET, kind) for kind in TYPES)
        yield f"IPv4 socket, protocol {name}", worst(makes(SOCKET, family, kind, protocol, NO_PROTOCOL) for family, kind in kinds)
    for family, protocol, name in ((INET, 1, "IPv4"), (INET6, 58, "IPv6")):
        yield f"raw {name}", makes(SOCKET, family, socket.SOCK_RAW, protocol, NO_PROTOCOL)


@attack(1)
def pairs():
    # The kernel looks at the lower half of the number, a filter at the whole.
    for wide in (0, 1 << 32):
        others = (family for family in range(64) if family != UNIX)
        made = (makes(SOCKETPAIR, family | wide, kind, 0, (errno.EAFNOSUPPORT,)) for family in others for kind in TYPES)
        yield f"socketpair other than AF_UNIX{', bit 32 set' if wide else ''}", worst(made)


@attack(2)
def modules():
    """By hand, and by what has the kernel look for a module. Families of sockets are among the first attack's."""
    yield "init_module", call(105 if ARM else 175, 0, 0, 0)
    yield "finit_module", call(273 if ARM else 313, -1, b"", 0)
    yield "delete_module", call(106 if ARM else 176, b"sandlot-none", 0o4000)
    yield "name of the loader", tried(lambda: os.close(os.open("/proc/sys/kernel/modprobe", os.O_WRONLY)))
    # Kinds of interfaces, of file systems and of ciphers are modules, too.
    yield "file system by name", call(430, b"sandlot-none", 0)
    yield "cipher by name", makes(SOCKET, 38, 5, 0, NO_FAMILY)
    for name, request in (("bridge", 0x8940), ("VLAN", 0x8982)):
        yield f"load the {name} module by ioctl", asks(request, socket.socket(INET, socket.SOCK_DGRAM).fileno())


IOCTL = 29 if ARM else 16


def asks(request, file):
    """The kernel looks at the lower half of a request, a filter at the whole."""
    return worst(call(IOCTL, file, request | wide, b"\0" * 64) for wide in (0, 1 << 32))


NEW = {"user": 0x10000000, "mount": 0x20000, "network": 0x40000000, "pid": 0x20000000, "ipc": 0x8000000, "uts": 0x4000000,
       "cgroup": 0x2000000}
NOWHERE = b"/sandlot-none/x"
#: Name, number on x64, number on arm64 (None: has none), arguments.
CLOSED = [
    ("bpf", 321, 280, [0, 0, 0]),
    ("perf_event_open", 298, 241, [0, 0, -1, -1, 0]),
    ("userfaultfd", 323, 282, [0]),
    ("mount", 165, 40, [b"none", b"/mnt", b"tmpfs", 0, 0]),
    ("umount2", 166, 39, [NOWHERE, 0]),
    ("pivot_root", 155, 41, [NOWHERE, NOWHERE]),
    ("fsopen", 430, 430, [b"tmpfs", 0]),
    ("fsconfig", 431, 431, [-1, 0, 0, 0, 0]),
    ("fsmount", 432, 432, [-1, 0, 0]),
    ("fspick", 433, 433, [-100, NOWHERE, 0]),
    ("move_mount", 429, 429, [-1, b"", -1, b"", 0]),
    ("open_tree", 428, 428, [-100, b"/", 1]),
    ("mount_setattr", 442, 442, [-1, NOWHERE, 0, 0, 0]),
    ("statmount", 457, 457, [0, 0, 0, 0]),
    ("listmount", 458, 458, [0, 0, 0, 0]),
    ("setns", 308, 268, [0, 0]),
    ("open_by_handle_at", 304, 265, [-1, 0, 0]),
    ("name_to_handle_at", 303, 264, [-100, b"/", 0, 0, 0]),
    ("kexec_load", 246, 104, [0, 99, 0, 0]),
    ("kexec_file_load", 320, 294, [-1, -1, 0, 0, 0]),
    ("process_vm_readv", 310, 270, ["self", 0, 0, 0, 0, 0]),
    ("process_vm_writev", 311, 271, ["self", 0, 0, 0, 0, 0]),
    ("process_madvise", 440, 440, [-1, 0, 0, 0, 0]),
    ("pidfd_getfd", 438, 438, [-1, 0, 0]),
    ("kcmp", 312, 272, ["self", "self", 0, 0, 0]),
    ("swapon", 167, 224, [NOWHERE, 0]),
    ("swapoff", 168, 225, [NOWHERE]),
    ("reboot", 169, 142, [0, 0, 0, 0]),
    ("quotactl", 179, 60, [0, 0, 0, 0]),
    ("quotactl_fd", 443, 443, [-1, 0, 0, 0]),
    ("syslog", 103, 116, [3, 0, 0]),
    ("acct", 163, 89, [NOWHERE]),
    ("lookup_dcookie", 212, 18, [0, 0, 0]),
    ("settimeofday", 164, 170, [0, 0]),
    ("clock_settime", 227, 112, [0, 0]),
    ("clock_adjtime", 305, 266, [0, 0]),
    ("adjtimex", 159, 171, [0]),
    ("sethostname", 170, 161, [0, -1]),
    ("setdomainname", 171, 162, [0, -1]),
    ("personality", 135, 92, [0x0040000]),
    ("fanotify_init", 300, 262, [0, 0]),
    ("vhangup", 153, 58, []),
    ("move_pages", 279, 239, [0, 0, 0, 0, 0, 0]),
    ("migrate_pages", 256, 238, ["self", 0, 0, 0]),
    ("mbind", 237, 235, [0, 0, 0, 0, 0, 0]),
    ("set_mempolicy", 238, 237, [0, 0, 0]),
    ("iopl", 172, None, [0]),
    ("ioperm", 173, None, [0, 0, 0]),
    ("modify_ldt", 154, None, [0, 0, 0]),
    ("call of the x32 interface", 0x40000000 | 39, None, []),
]
#: Answered as by a kernel that does not have them.
MISSING = [
    ("io_uring_setup", [8, 0]), ("io_uring_enter", [-1, 0, 0, 0, 0]), ("io_uring_register", [-1, 0, 0, 0]),
    ("io_setup", [1, 0]), ("clone3", [0, 0]), ("landlock_create_ruleset", [0, 0, 1]), ("pkey_alloc", [0, 0]),
]
NUMBERS = {"io_setup": 0 if ARM else 206,
           "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "clone3": 435,
           "landlock_create_ruleset": 444, "pkey_alloc": 289 if ARM else 330}


@attack(3)
def closed_calls():
    for name, x64, arm64, args in CLOSED:
        number = arm64 if ARM else x64
        if number is None:
            yield name, ABSENT
            continue
        words = [os.getpid() if each == "self" else each for each in args]
        yield name, call(number, *words, refusals=(errno.EPERM, errno.ENOSYS) if number > 1 << 30 else (errno.EPERM,))
    for name, args in MISSING:
        yield name, call(NUMBERS[name], *args, refusals=(errno.ENOSYS,))


@attack(3)
def namespaces():
    for name, flag in NEW.items():
        yield f"unshare of a {name} namespace", call(97 if ARM else 272, flag)
        yield f"clone with a new {name} namespace", call(220 if ARM else 56, flag | 17, 0, 0, 0, 0)


@attack(3)
def typed_by_others():
    """TIOCSTI: what is put into a terminal runs as whoever reads it. There is none here that another reads."""

    def terminals():
        for path in ("/dev/console", "/dev/tty1"):
            if os.path.exists(path):
                return path
        # Those of the guest's making are in a devpts of the sandbox's own, and not held by its first process.
        held = [f"/proc/1/fd/{file}" for file in os.listdir("/proc/1/fd")]
        for path in [os.readlink(each) for each in held if os.path.islink(each)]:
            if "/pts/" in path or "/tty" in path:
                return f"the first process holds {path}"
        raise OSError(errno.EPERM, "none")

    yield "terminals of the machine", tried(terminals)
    terminal, _ = os.openpty()
    yield "TIOCSTI", asks(0x5412, terminal)
    yield "TIOCLINUX", asks(0x541C, terminal)


@attack(4)
def keyrings():
    yield "add_key", call(217 if ARM else 248, b"user", b"k", b"v", 1, -3)
    yield "request_key", call(218 if ARM else 249, b"user", b"sandlot-none", 0, -3)
    yield "keyctl", call(219 if ARM else 250, 0, -3, 0)
    for path in ("/proc/keys", "/proc/key-users"):
        yield path, tried(lambda: len(read(path)) or refuse())


def refuse():
    raise OSError(errno.EACCES, "nothing to read")
