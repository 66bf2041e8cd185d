"""Attacks 13 to 18, as far as they are seen from inside without using anything up: each share has a bound."""

import errno
import os
import resource

from probing import REFUSED, attack, opened, read, tried

GIB = 1 << 30


def first_of(*paths):
    for path in paths:
        try:
            return read(path).split()[0]
        except (OSError, IndexError):
            continue
    return None


def bounded(value, most):
    if value is None:
        return opened("there is no bound")
    return REFUSED if value.isdigit() and 0 < int(value) <= most else opened(value)


@attack(13)
def processes():
    yield "number of processes", bounded(first_of("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"), 4096)


@attack(14)
def memory():
    names = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"
    yield "memory", bounded(first_of(*names), 64 * GIB)
    yield "memory and swap", bounded_swap()
    for folder in ("/dev", "/dev/shm", "/run"):
        about = os.statvfs(folder)
        yield f"memory by {folder}", REFUSED if about.f_blocks * about.f_frsize <= 256 << 20 else opened("no size")


def bounded_swap():
    swap = first_of("/sys/fs/cgroup/memory.swap.max")
    if swap is not None:
        return REFUSED if swap == "0" else opened(swap)
    return bounded(first_of("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes"), 64 * GIB)


@attack(15)
def disk():
    about = os.statvfs("/")
    yield "bytes of the disk", REFUSED if about.f_blocks * about.f_frsize <= 64 * GIB else opened("no size")
    yield "files of the disk", REFUSED if 0 < about.f_files < 1 << 26 else opened("no bound")


@attack(16)
def processors():
    quota = first_of("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us")
    yield "processor time", bounded(quota, 64_000_000)
    for name in ("SCHED_FIFO", "SCHED_RR"):
        yield name, tried(lambda: os.sched_setscheduler(0, getattr(os, name), os.sched_param(1)))
    yield "niceness -20", tried(lambda: os.setpriority(os.PRIO_PROCESS, 0, -20))


@attack(18)
def files():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield "more open files than a process may have", tried(lambda: higher(resource.RLIMIT_NOFILE, hard))
    _, core = resource.getrlimit(resource.RLIMIT_CORE)
    yield "core dumps", REFUSED if core == 0 else opened(str(core))


def higher(kind, hard):
    try:
        resource.setrlimit(kind, (hard, hard + 1))
    except ValueError as error:
        raise OSError(errno.EPERM, str(error)) from error
