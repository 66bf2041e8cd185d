"""
Runs inside a sandbox, as root: searches it for a value and prints where it found it, one place per line. The argument is
the value backwards, so that neither the command nor its arguments contain it.

It searches the memory, environment and arguments of every process but itself, other files of /proc, and the content of
files: with "all" as the second argument all of them, otherwise without the programs of the image.
"""

import os
import re
import stat
import sys

NEEDLE = sys.argv[1][::-1].encode()
ALL = sys.argv[2:] == ["all"]
PIECE = 4 * 1024 * 1024
PAGE = os.sysconf("SC_PAGE_SIZE")
NOT_SEARCHED = {"/proc", "/sys", "/dev"} | (set() if ALL else {"/usr/bin", "/usr/include", "/usr/lib", "/usr/share"})


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
        with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pages:
            return any(range_holds(memory, pages, line) for line in maps)


def range_holds(memory, pages, line):
    begin, end, rights = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line).groups()
    at, end = int(begin, 16), int(end, 16)
    if "r" not in rights or at >= 1 << 63:
        return False
    rest = b""
    while at < end:
        size = min(PIECE, end - at)
        # Each page has eight bytes there. Pages that never held anything are not read: programs reserve terabytes.
        pages.seek(at // PAGE * 8)
        facts = pages.read(size // PAGE * 8)
        if any(facts[7::8]):
            memory.seek(at)
            try:
                piece = memory.read(size)
            except OSError:
                piece = b""
            if NEEDLE in rest + piece:
                return True
            rest = piece[-len(NEEDLE) :]
        at += size
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

for folder, folders, files in os.walk("/"):
    folders[:] = [each for each in folders if os.path.join(folder, each) not in NOT_SEARCHED]
    for each in files:
        path = os.path.join(folder, each)
        try:
            facts = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISREG(facts.st_mode):
            tell(path, lambda: file_holds(path))
            searched += 1
print(f"searched {searched}")
