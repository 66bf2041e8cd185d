"""Attacks 6 and 7: what of the kernel's settings can be opened for writing. Nothing is written."""

import errno
import os

from probing import ABSENT, REFUSED, attack, files_below, is_hidden, opened, opens, read, tried, worst

#: Its owner is root inside; what is written there is shown to the sandbox itself.
OURS = ("/proc/meminfo",)
SWITCHES = """
/proc/sysrq-trigger /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/kernel/hotplug
/proc/sys/vm/overcommit_memory /proc/sys/vm/panic_on_oom /proc/sys/vm/drop_caches /proc/sys/fs/binfmt_misc/register
/proc/sys/fs/suid_dumpable /proc/irq/default_smp_affinity /proc/mtrr /proc/sys/kernel/ns_last_pid
""".split()


@attack(6)
def switches():
    for path in SWITCHES:
        yield path, opens(path, os.O_WRONLY)


@attack(6)
def settings():
    for name in sorted(os.listdir("/proc/sys")):
        yield f"write to /proc/sys/{name}", worst(opens(path, os.O_WRONLY) for path in files_below(f"/proc/sys/{name}"))
    others = [name for name in sorted(os.listdir("/proc")) if not name.isdigit() and name not in ("self", "thread-self", "sys")]
    paths = [path for path in (f"/proc/{name}" for name in others) if not os.path.islink(path)]
    files = [file for path in paths for file in ([path] if os.path.isfile(path) else files_below(path)) if file not in OURS]
    yield "write to other files of /proc", worst(opens(path, os.O_WRONLY) for path in files)
    yield "write to /sys", worst(opens(path, os.O_WRONLY) for path in files_below("/sys"))


@attack(6)
def masks():
    """One that is a device of its own making, or a link, hides nothing: what lies over a file is ours."""
    lain = [line.split()[4] for line in read("/proc/self/mountinfo", 1 << 20).splitlines()]
    hidden = ["/proc/kallsyms", "/proc/kcore", "/proc/timer_list", "/proc/keys"]
    for path in hidden:
        if not os.path.exists(path):
            yield f"mask of {path}", ABSENT
            continue
        yield f"mask of {path}", REFUSED if path in lain and is_hidden(path) else opened("it is not there")


@attack(7)
def cgroups():
    top = "/sys/fs/cgroup"
    yield "limits", worst(opens(path, os.O_WRONLY) for path in files_below(top))
    for name in ("release_agent", "notify_on_release", "cgroup.procs", "devices.allow", "memory.max"):
        found = [path for path in files_below(top) if path.endswith(name)]
        yield name, worst(opens(path, os.O_WRONLY) for path in found)
    yield "a new cgroup", worst(tried(lambda: make_cgroup(path)) for path in (f"{top}/x", f"{top}/memory/x"))
    places = {line.split(":", 2)[2] for line in read("/proc/self/cgroup").splitlines()}
    yield "a path above its own cgroup", REFUSED if places <= {"/"} else opened(sorted(places)[-1])


def make_cgroup(path):
    """Of the first version, the folder that has all trees in it is a file system of its own, and no cgroup."""
    os.mkdir(path)
    is_cgroup = os.path.exists(f"{path}/cgroup.procs")
    os.rmdir(path)
    if not is_cgroup:
        raise OSError(errno.EPERM, "no cgroup", path)
