"""
Runs inside a sandbox, as root: searches it for a value and prints where it found it, one place per line. The argument is
the value backwards, so that neither the command nor its arguments contain it.

It searches the memory, environment and arguments of every process but itself, other files of /proc, and the content of
files: all of those that changed since the sandbox began, or really all with "all" as the second argument.
"""

import os
import re
import stat
import sys

NEEDLE = sys.argv[1][::-1].encode()
ALL = sys.argv[2:] == ["all"]
PIECE = 4 * 1024 * 1024
NOT_SEARCHED = {"/proc", "/sys", "/dev"}


def holds(read):
    """Whether the pieces that `read` returns, joined, hold the value."""
    rest = b""
    while True:
        piece = read()
        if not piece:
            return False
        if NEEDLE in rest + piece:
            return True
        rest = piece[-len(NEEDLE) :]


def file_holds(path):
    with open(path, "rb", buffering=0) as file:
        return holds(lambda: file.read(PIECE))


def memory_holds(pid):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            begin, end, rights = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line).groups()
            at, end = int(begin, 16), int(end, 16)
            if "r" not in rights or at >= 1 << 63:
                continue
            rest = b""
            while at < end:
                try:
                    memory.seek(at)
                    piece = memory.read(min(PIECE, end - at))
                except OSError:
                    break
                if not piece:
                    break
                if NEEDLE in rest + piece:
                    return True
                rest = piece[-len(NEEDLE) :]
                at += len(piece)
    return False


def tell(place, look):
    try:
        if look():
            print(place)
    except (OSError, ValueError):
        pass


searched = 0
for name in os.listdir("/proc"):
    if not name.isdigit() or int(name) == os.getpid():
        continue
    tell(f"memory of {name}", lambda: memory_holds(name))
    for facts in ("environ", "cmdline", "stack", "status", "fdinfo/0", "net/tcp", "net/unix"):
        tell(f"{facts} of {name}", lambda: file_holds(f"/proc/{name}/{facts}"))
    searched += 1
for name in os.listdir("/proc"):
    path = f"/proc/{name}"
    if not name.isdigit() and name not in ("kmsg", "kcore", "kpagecount", "kpageflags", "kpagecgroup"):
        if stat.S_ISREG(os.lstat(path).st_mode):
            tell(path, lambda: file_holds(path))

began = os.stat("/proc/1").st_mtime - 1
for folder, folders, files in os.walk("/"):
    folders[:] = [each for each in folders if os.path.join(folder, each) not in NOT_SEARCHED]
    for each in files:
        path = os.path.join(folder, each)
        try:
            facts = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISREG(facts.st_mode) and (ALL or facts.st_ctime >= began):
            tell(path, lambda: file_holds(path))
            searched += 1
print(f"searched {searched}")
