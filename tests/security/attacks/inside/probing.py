"""What all probes share. An attempt ends as "refused", as "absent" (there is nothing to attack), or as "open: …"."""

import ctypes
import errno
import json
import os
import platform
import re
import signal
import stat

libc = ctypes.CDLL(None, use_errno=True)
ARM = platform.machine() == "aarch64"
REFUSED = "refused"
ABSENT = "absent"
#: Of a kernel that does not have it. A filter answers the same, so without one it is the kernel that says so.
NOT_THERE = {errno.ENOSYS, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ENOENT, errno.ENXIO, errno.ENODEV}
#: Of a system call, where nothing else can say it.
NO_CALL = {errno.ENOSYS, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT}

attacks = {}


def attack(number):
    """Names a function that yields (what was tried, how it ended) after the attack that it belongs to."""

    def keep(probe):
        attacks.setdefault(number, []).append(probe)
        return probe

    return keep


def opened(how):
    return f"open: {how}"


def is_open(outcome):
    return outcome.startswith("open")


def read(path, most=1 << 16):
    """Never waits, and reads only so much."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    text = b""
    try:
        # Files of the kernel give a page at a time.
        while len(text) < most and (piece := os.read(file, most - len(text))):
            text += piece
        return text.decode("utf8", "replace")
    finally:
        os.close(file)


def status_of(pid="self"):
    return dict(re.findall(r"^(\w+):[ \t]*(.*)$", read(f"/proc/{pid}/status"), re.M))


FILTERED = status_of().get("Seccomp", "0") != "0"


def of_errno(number, refusals):
    if not FILTERED and number in NO_CALL:
        return ABSENT
    return REFUSED if number in refusals else opened(errno.errorcode.get(number, str(number)))


def apart(work):
    """What `work` answers, in a process of its own: an attempt that gets somewhere changes who makes it."""
    incoming, outgoing = os.pipe()
    child = os.fork()
    if child == 0:
        own = os.getpid()
        said = work()
        # A namespace may come with a process that goes on here as well.
        if os.getpid() == own:
            os.write(outgoing, said.encode())
        os._exit(0)
    os.close(outgoing)
    with open(incoming, "rb") as pipe:
        said = pipe.read().decode()
    _, ended = os.waitpid(child, 0)
    if os.WIFSIGNALED(ended):
        return REFUSED if os.WTERMSIG(ended) == signal.SIGSYS else opened(f"ended by signal {os.WTERMSIG(ended)}")
    return said or opened("went on elsewhere")


def call(number, *args, refusals=(errno.EPERM,)):
    """A system call by its number; what the kernel looks at closely enough to find fault with is open."""

    def make():
        words = [each if isinstance(each, (bytes, ctypes.Array)) else ctypes.c_long(each) for each in args]
        ctypes.set_errno(0)
        done = libc.syscall(ctypes.c_long(number), *words)
        return of_errno(ctypes.get_errno(), refusals) if done == -1 else opened("done")

    return apart(make)


def tried(work, refusals=(errno.EPERM, errno.EACCES, errno.EROFS)):
    """Of work that throws OSError when it is refused. What is not there cannot be had."""
    try:
        how = work()
        return opened("done" if how is None else how)
    except OSError as error:
        if error.errno in refusals:
            return REFUSED
        return ABSENT if error.errno in NOT_THERE else opened(errno.errorcode.get(error.errno, str(error.errno)))


def is_hidden(path):
    """Over what is hidden lies the null device, or an empty file of another file system that nobody can write."""
    about = os.stat(path)
    if stat.S_ISCHR(about.st_mode):
        return about.st_rdev == os.makedev(1, 3)
    is_ours = about.st_dev != os.stat("/proc").st_dev and os.statvfs(path).f_flag & os.ST_RDONLY
    return bool(stat.S_ISREG(about.st_mode) and is_ours and about.st_size == 0)


def opens(path, flags):
    """Opening alone does nothing to what is opened, wherever this runs."""

    def work():
        if is_hidden(path):
            raise OSError(errno.EACCES, "hidden", path)
        os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
        return path

    return tried(work)


def files_below(top):
    """Links are not followed: they lead round in circles, and what they lead to is looked at by itself."""
    for at, _, names in os.walk(top):
        for name in names:
            path = os.path.join(at, name)
            if not os.path.islink(path):
                yield path


def worst(outcomes):
    """Of many attempts at the same thing, which end with the first that comes to something."""
    seen = ABSENT
    for outcome in outcomes:
        if is_open(outcome):
            return outcome
        if outcome == REFUSED:
            seen = REFUSED
    return seen


def results():
    """What each attack's attempts came to, as {number: {attempt: outcome}}."""
    return {
        number: {label: outcome for probe in probes for label, outcome in probe()}
        for number, probes in sorted(attacks.items())
    }


def tell(found, path):
    text = json.dumps(found)
    if path == "-":
        print(text)
        return
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)
