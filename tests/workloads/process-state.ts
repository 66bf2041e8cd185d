/**
 * Resources that a process may hold. Each is a Python program: `setup` runs before the pause, and `look` (an
 * expression) reports the state before and after it. All of them are paused together, in one sandbox.
 */
import { TERMINAL_WRITE_MAX_BYTES } from "../../src/sandbox/runtime/crun/image/image-terminals.ts";

export interface Holding {
  /** As the row in docs/pause.md says it. */
  what: string;
  fate: "kept" | "reset" | "lost";
  setup: string;
  look: string;
  /** The result of `look` afterwards; by default, the same as before. */
  after?: string;
}

function kept(what: string, setup: string, look: string): Holding {
  return { what, fate: "kept", setup, look };
}

function reset(what: string, setup: string, look: string, after: string): Holding {
  return { what, fate: "reset", setup, look, after };
}

function lost(what: string, setup: string, put: string, take: string, after: string): Holding {
  return { ...keptWithin(what, setup, put, take), fate: "lost", after };
}

/** Content that can be taken out only once: each look takes it and puts it back, so that it is there at the pause. */
function keptWithin(what: string, setup: string, put: string, take: string): Holding {
  return kept(what, `${setup}\ndef put(): ${put}\nput()`, `${take}, put()`);
}

const TCP_PAIR = `
def pair():
    listener = socket.create_server(("127.0.0.1", 0)); listener.settimeout(5)
    connecting = socket.create_connection(listener.getsockname())
    return listener, connecting, listener.accept()[0]
`;
const UDP_PAIR =
  "u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('127.0.0.1', 0)); u.settimeout(5); v = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); v.connect(u.getsockname())";
const FULL_TCP_PAIR = `
piece = os.urandom(100_000)
def full_pair():
    _, connecting, accepted = pair()
    connecting.setblocking(False); sent = b""
    try:
        while True: sent += piece[:connecting.send(piece)]
    except BlockingIOError: return connecting, accepted, sent
`;
/** Some that go on and on, and some that are over and must stay so. */
const TIMERS = `
def timer(flags, initial, interval):
    now = time.clock_gettime(time.CLOCK_MONOTONIC) if flags else 0
    made = os.timerfd_create(time.CLOCK_MONOTONIC)
    os.timerfd_settime(made, flags=flags, initial=now + initial, interval=interval)
    if not interval: os.read(made, 8)
    return made
timers = [timer(flags, 0.01, interval) for flags in (0, os.TFD_TIMER_ABSTIME) for interval in (0.01, 0.7, 0)]
def runs(timer):
    times = 0
    while times < 4 and select.select([timer], [], [], 2 if times else 0.8)[0]: times += len(os.read(timer, 8)) // 8
    return times
`;
const FULL_TERMINAL = `
m, s = os.openpty(); tty.setraw(s); os.set_blocking(m, False)
def stop(*_): raise InterruptedError
signal.signal(signal.SIGALRM, stop)
def fill():
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        while True: os.write(s, b"x" * 1000)
    except InterruptedError: return
def unread():
    size = 0
    try:
        while True: size += len(os.read(m, 65536)); time.sleep(0.05)
    except BlockingIOError: return size
`;
const SECCOMP_RULE = `
rule = struct.pack("HBBI", 0x20, 0, 0, 0) + struct.pack("HBBI", 0x15, 0, 1, PERSONALITY)
rule += struct.pack("HBBI", 6, 0, 0, 0x50000 + 99) + struct.pack("HBBI", 6, 0, 0, 0x7fff0000)
buffer = ctypes.create_string_buffer(rule)
class Program(ctypes.Structure): _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
libc.prctl(38, 1, 0, 0, 0)
assert libc.prctl(22, 2, ctypes.byref(Program(4, ctypes.addressof(buffer))), 0, 0) == 0
def tried():
    libc.personality(0xffffffff)
    return ctypes.get_errno()
`;

export const holdings: readonly Holding[] = [
  kept(
    "working folder, environment, umask, limits, niceness, name",
    "os.chdir('/var'); os.umask(0o027); os.nice(5); resource.setrlimit(resource.RLIMIT_NOFILE, (300, 400)); libc.prctl(15, b'renamed', 0, 0, 0)",
    "os.getcwd(), os.umask(0o027), os.nice(0), resource.getrlimit(resource.RLIMIT_NOFILE), open('/proc/self/comm').read(), os.environ['HOME']",
  ),
  kept(
    "a working folder that was removed",
    "os.makedirs('/tmp/x/y'); os.chdir('/tmp/x/y'); os.rmdir('/tmp/x/y'); os.rmdir('/tmp/x')",
    "os.readlink('/proc/self/cwd')",
  ),
  kept(
    "a deleted file that is still open, up to 1 GiB",
    "g = open('/tmp/gone', 'w+b'); g.write(os.urandom(3_000_000)); g.flush(); os.unlink('/tmp/gone')\nopen('/tmp/a-name', 'w').write('linked'); os.link('/tmp/a-name', '/tmp/b-name'); l = open('/tmp/a-name'); os.unlink('/tmp/a-name')\ni = open('/usr/bin/tar'); subprocess.run(['sudo', 'rm', '/usr/bin/tar'], check=True)",
    "[(hashlib.sha256(os.pread(f.fileno(), 10_000_000, 0)).hexdigest(), os.fstat(f.fileno()).st_nlink) for f in (g, l, i)], os.listdir('/tmp').count('b-name')",
  ),
  kept(
    "a program that was deleted while it ran",
    "shutil.copy('/usr/bin/sleep', '/tmp/short'); p = subprocess.Popen(['/tmp/short', '1000']); time.sleep(0.1); os.unlink('/tmp/short')",
    "p.poll()",
  ),
  keptWithin(
    "pipes and named pipes, with their content",
    "r, w = os.pipe(); os.mkfifo('/tmp/named'); n = os.open('/tmp/named', os.O_RDWR)",
    "os.write(w, b'in a pipe'); os.write(n, b'in a named one')",
    "os.read(r, 99), os.read(n, 99)",
  ),
  keptWithin(
    "Unix sockets of every type, with their content and files in transit",
    "s = [socket.socketpair(socket.AF_UNIX, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET)]; q = socket.socketpair(); open('/tmp/passed', 'w').write('passed')",
    "[a.send(b'on its way') for a, _ in s]; f = os.open('/tmp/passed', os.O_RDONLY); socket.send_fds(q[0], [b'x'], [f]); os.close(f)",
    "[b.recv(99) for _, b in s], os.pread(socket.recv_fds(q[1], 9, 1)[1][0], 99, 0)",
  ),
  keptWithin(
    "TCP within the sandbox, with data in transit, also half closed",
    TCP_PAIR + FULL_TCP_PAIR,
    "global l, c, a, full; l, c, a = pair(); c.sendall(b'last words'); c.shutdown(1); full = full_pair()",
    "a.recv(99), a.recv(99), a.sendall(b'answer'), c.recv(99), full[1].recv(len(full[2]), socket.MSG_WAITALL) == full[2]",
  ),
  kept("UDP within the sandbox", UDP_PAIR, "v.send(b'sent'), u.recv(99)"),
  kept(
    "listening sockets",
    "l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1); l.bind(('0.0.0.0', 7100)); l.listen()",
    "socket.create_connection(('127.0.0.1', 7100)).getpeername(), l.accept()[0].fileno() > 0",
  ),
  kept(
    "shared memory: POSIX, System V, memfd, and mapped between processes",
    "m = multiprocessing.shared_memory.SharedMemory(create=True, size=4096); m.buf[:5] = b'posix'\nlibc.shmat.restype = ctypes.c_void_p; v = libc.shmat(libc.shmget(7, 4096, 0o1600), None, 0); ctypes.memmove(v, b'sysv', 4)\ngone = libc.shmget(0, 4096, 0o1600); libc.shmat(gone, None, 0); libc.shmctl(gone, 0, None)\nmode = lambda: [line.split()[2] for line in open('/proc/sysvipc/shm') if line.split()[1] == str(gone)]\nfd = os.memfd_create('x', os.MFD_ALLOW_SEALING); os.write(fd, b'memfd'); fcntl.fcntl(fd, 1033, 8)\ns = mmap.mmap(-1, 4096)\nif os.fork() == 0:\n    while True: s[0] = (s[0] + 1) % 256; time.sleep(0.005)\ndef moves():\n    first = s[0]\n    while s[0] == first: time.sleep(0.005)\n    return True",
    "bytes(m.buf[:5]), ctypes.string_at(v, 4), mode(), os.pread(fd, 9, 0), fcntl.fcntl(fd, 1034), moves()",
  ),
  keptWithin(
    "System V semaphores and message queues",
    "s = libc.semget(8, 1, 0o1600); libc.semctl(s, 0, 16, 5); q = libc.msgget(9, 0o1600); b = ctypes.create_string_buffer(99)",
    "libc.msgsnd(q, ctypes.create_string_buffer(struct.pack('q', 3) + b'hey'), 3, 0)",
    "libc.semctl(s, 0, 12), libc.msgrcv(q, b, 3, 0, 0), b.raw[8:11]",
  ),
  kept(
    "files in /dev/shm and /run (in memory)",
    "open('/dev/shm/a', 'wb').write(os.urandom(1_000_000)); subprocess.run(['sudo', 'cp', '/dev/shm/a', '/run/b'], check=True)",
    "[hashlib.sha256(open(path, 'rb').read()).hexdigest() for path in ('/dev/shm/a', '/run/b')]",
  ),
  kept(
    "file locks of every kind, and leases",
    "f = open('/tmp/flock', 'w'); fcntl.flock(f, fcntl.LOCK_EX)\no = open('/tmp/ofd', 'w'); want = struct.pack('hhqqi4x', 1, 0, 0, 0, 0); fcntl.fcntl(o, 37, want)\nopen('/tmp/lease', 'w').close(); e = open('/tmp/lease'); fcntl.fcntl(e, 1024, 0)\np = open('/tmp/posix', 'w'); fcntl.lockf(p, fcntl.LOCK_EX)\ndef free():\n    try: fcntl.flock(open('/tmp/flock'), fcntl.LOCK_EX | fcntl.LOCK_NB)\n    except BlockingIOError: return False\n    return True",
    "free(), fcntl.fcntl(open('/tmp/ofd', 'w'), 36, want)[:2], fcntl.fcntl(e, 1025), subprocess.run(['python3', '-c', 'import fcntl; fcntl.lockf(open(\"/tmp/posix\", \"w\"), fcntl.LOCK_EX | fcntl.LOCK_NB)'], stderr=subprocess.DEVNULL).returncode",
  ),
  kept(
    "inotify watches",
    "i = libc.inotify_init1(os.O_NONBLOCK); os.mkdir('/tmp/watched'); libc.inotify_add_watch(i, b'/tmp/watched', 0x100)\ndef seen():\n    name = os.urandom(4).hex(); open('/tmp/watched/' + name, 'w').close()\n    return name.encode() in os.read(i, 4096)",
    "seen()",
  ),
  kept(
    "epoll, eventfd, timerfd, pidfd",
    `e = os.eventfd(7, os.EFD_NONBLOCK); p = select.epoll(); p.register(e); child = subprocess.Popen(['sleep', '1000']); d = os.pidfd_open(child.pid)\n${TIMERS}`,
    "p.poll(1), [runs(timer) for timer in timers], signal.pidfd_send_signal(d, 0)",
  ),
  kept(
    "signal handlers, blocked and pending signals, interval timers",
    "fired = []; signal.signal(signal.SIGALRM, lambda *_: fired.append(1)); signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); os.kill(os.getpid(), signal.SIGUSR1)\ndef fires():\n    n = len(fired)\n    while len(fired) == n: time.sleep(0.01)\n    return True",
    "fires(), signal.sigpending()",
  ),
  kept(
    "zombie processes",
    "p = subprocess.Popen(['true'])\nwhile open(f'/proc/{p.pid}/stat').read().split()[2] != 'Z': time.sleep(0.01)",
    "open(f'/proc/{p.pid}/stat').read().split()[2]",
  ),
  kept(
    "background processes of an ended shell",
    "subprocess.run(['setsid', 'sh', '-c', '(sleep 999 &); exit'])\nwhile subprocess.run(['pgrep', '-fx', 'sleep 999']).returncode: time.sleep(0.02)",
    "subprocess.run(['pgrep', '-fx', 'sleep 999'], capture_output=True).stdout",
  ),
  kept(
    "processes of other users (sudo)",
    "p = subprocess.Popen(['sudo', 'sleep', '1000'])\nwhile subprocess.run(['pgrep', '-u', 'root', '-fx', 'sleep 1000']).returncode: time.sleep(0.02)",
    "p.poll(), subprocess.run(['pgrep', '-u', 'root', '-fx', 'sleep 1000'], capture_output=True).stdout",
  ),
  kept(
    "a running ping",
    "p = subprocess.Popen(['ping', '-i', '0.2', '127.0.0.1'], stdout=subprocess.PIPE); p.stdout.readline()",
    "'bytes from' in p.stdout.readline().decode(), p.poll()",
  ),
  kept(
    "a program's own seccomp filters",
    SECCOMP_RULE.replace("PERSONALITY", "135 if os.uname().machine == 'x86_64' else 92"),
    "tried()",
  ),
  reset(
    "CPU affinity: all processors of the sandbox",
    "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})",
    "len(os.sched_getaffinity(0)) == os.cpu_count()",
    "True",
  ),
  reset(
    "I/O priority and timer slack: the default",
    "ioprio_set, ioprio_get = (251, 252) if os.uname().machine == 'x86_64' else (30, 31); libc.syscall(ioprio_set, 1, 0, 3 << 13); libc.prctl(29, 77777, 0, 0, 0)",
    "libc.syscall(ioprio_get, 1, 0) == 3 << 13, libc.prctl(30, 0, 0, 0, 0)",
    "(False, 50000)",
  ),
  reset(
    "TCP_USER_TIMEOUT, TCP_FASTOPEN, TCP_DEFER_ACCEPT, IP_RECVERR and SO_TIMESTAMP of a socket: off",
    `${TCP_PAIR}l, c, a = pair(); c.setsockopt(6, 18, 5000); c.setsockopt(0, 11, 1); c.setsockopt(1, 29, 1)\no = socket.socket(); o.setsockopt(6, 23, 5); o.setsockopt(6, 9, 5); o.bind(('127.0.0.1', 0)); o.listen()`,
    "c.getsockopt(6, 18), o.getsockopt(6, 23), o.getsockopt(6, 9), c.getsockopt(0, 11), c.getsockopt(1, 29)",
    "(0, 0, 0, 0, 0)",
  ),
  reset(
    "the user at the other end of a Unix socket (SO_PEERCRED): root",
    "a, b = socket.socketpair()",
    "struct.unpack('iii', a.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1:]",
    "(0, 0)",
  ),
  reset(
    "an eventfd in semaphore mode: ordinary mode",
    "e = os.eventfd(5, os.EFD_SEMAPHORE)\ndef taken():\n    value = os.eventfd_read(e); os.eventfd_write(e, value)\n    return value",
    "taken()",
    "5",
  ),
  reset(
    "start time and CPU time of a process: counted from the resume",
    "began = lambda: open('/proc/self/stat').read().rsplit(')')[1].split()[19]; first = began()\nwhile time.process_time() < 2: pass",
    "time.process_time() >= 2, began() == first",
    "(False, False)",
  ),
  reset(
    "multicast groups of a socket: none",
    "u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.setsockopt(0, socket.IP_ADD_MEMBERSHIP, bytes([239, 1, 2, 3, 127, 0, 0, 1]))",
    "'030201EF' in open('/proc/net/igmp').read()",
    "False",
  ),
  reset(
    "times of files in /dev/shm and /run: full seconds",
    "open('/dev/shm/times', 'w').close(); os.utime('/dev/shm/times', ns=(10**18 + 5, 10**18 + 5))",
    "os.stat('/dev/shm/times').st_mtime_ns",
    "1000000000000000000",
  ),
  lost(
    "a TCP connection within the sandbox that was not yet accepted: its client gets ECONNRESET",
    TCP_PAIR,
    "global l, c, a, d; l, c, a = pair(); d = socket.create_connection(l.getsockname())",
    "d.send(b'early'), time.sleep(0.1), d.send(b'!'), l.accept()[0].recv(99)",
    "ConnectionResetError(104, 'Connection reset by peer')",
  ),
  lost("unread UDP datagrams", UDP_PAIR, "v.send(b'unread')", "u.recv(99)", "TimeoutError('timed out')"),
  lost("unread terminal data beyond 8 KiB", FULL_TERMINAL, "fill()", "unread()", `(${TERMINAL_WRITE_MAX_BYTES}, None)`),
  lost(
    "an unfinished line on a terminal",
    "m, s = os.openpty()",
    "os.write(m, b'half')",
    "os.write(m, b' a line\\n'), os.read(s, 99)",
    "(8, b' a line\\n', None)",
  ),
  lost(
    "unread inotify events",
    "i = libc.inotify_init1(os.O_NONBLOCK); os.mkdir('/tmp/unread'); libc.inotify_add_watch(i, b'/tmp/unread', 0x100)",
    "open('/tmp/unread/' + os.urandom(4).hex(), 'w').close()",
    "len(os.read(i, 4096))",
    "BlockingIOError(11, 'Resource temporarily unavailable')",
  ),
];

/** Reports its state for every line of input. */
export function holdingProgram({ setup, look }: Holding): string {
  return `
import ctypes, fcntl, hashlib, mmap, multiprocessing.shared_memory, os, resource, select, shutil, signal, socket, struct
import subprocess, sys, time, tty
libc = ctypes.CDLL(None, use_errno=True)
${setup}
print("<ready>")
for line in sys.stdin:
    try: answer = ${look}
    except Exception as error: answer = error
    print("<%r>" % (answer,))
`;
}
