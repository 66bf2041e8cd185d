"""Mounts an empty file system of the FUSE kind at argv[1], serves it from a child, and becomes the command in argv[2:]."""
import ctypes, os, struct, sys

INIT, GETATTR, STATFS, OPENDIR, READDIR = 26, 3, 17, 27, 28
UNANSWERED = (2, 36, 42)  # FORGET, INTERRUPT, BATCH_FORGET
ENOSYS = 38
ATTRIBUTES = struct.pack("<QQQQQQIIIIIIIIII", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, 0, 0, 0, 4096, 0)


def answer(opcode):
    if opcode == INIT:
        return struct.pack("<IIIIHHIIHHI", 7, 31, 65536, 0, 12, 10, 65536, 1, 0, 0, 0) + bytes(28)
    if opcode == GETATTR:
        return struct.pack("<QII", 1, 0, 0) + ATTRIBUTES
    if opcode == STATFS:
        return bytes(80)
    if opcode == OPENDIR:
        return bytes(16)
    return b"" if opcode in (READDIR, 29, 34) else None


device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
if ctypes.CDLL(None).mount(b"stub", sys.argv[1].encode(), b"fuse", 0, options) != 0:
    sys.exit("no FUSE file system can be mounted")
if os.fork() != 0:
    os.close(device)
    os.execv(sys.argv[2], sys.argv[2:])
PR_SET_PDEATHSIG, SIGKILL = 1, 9
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
while True:
    _, opcode, unique = struct.unpack_from("<IIQ", os.read(device, 1 << 20))
    if opcode in UNANSWERED:
        continue
    body = answer(opcode)
    error = -ENOSYS if body is None else 0
    os.write(device, struct.pack("<IiQ", 16 + len(body or b""), error, unique) + (body or b""))
