/** What a copy shares with its original, and what not. Each is a Python expression, evaluated in both. */
interface Sharing {
  /** As the row in docs/pause.md says it. */
  what: string;
  inCopy: "the same" | "its own";
  look: string;
}

/** Where the program finds Bun. */
export const SHARING_BUN = "/home/user/bun";

/** Evaluates each line. It has used every generator before it is copied. */
export const SHARING_PROGRAM = `
import mmap, numpy, os, random, ssl, subprocess, sys
word = os.urandom(16).hex()
open("/tmp/file", "w").write(word)
generator = numpy.random.default_rng()
os.urandom(8), random.random(), ssl.RAND_bytes(8), generator.random()
draw = "for await (const line of console) console.log(require('node:crypto').randomBytes(16).toString('hex'))"
bun = subprocess.Popen(["${SHARING_BUN}", "-e", draw], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
boring = lambda: (bun.stdin.write(b"\\n"), bun.stdout.readline())
boring()
MADV_WIPEONFORK = 18
marked = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
marked.madvise(MADV_WIPEONFORK)
marked[:4] = b"mark"
read = lambda path, mode="r": open(path, mode).read(64)
print("<ready>")
for line in sys.stdin: print("<%r>" % (eval(line),))
`;

export const sharings: readonly Sharing[] = [
  { what: "everything in memory and on disk, including secrets", inCopy: "the same", look: "word, read('/tmp/file')" },
  {
    what: "random numbers of Python and numpy",
    inCopy: "the same",
    look: "random.getrandbits(64), generator.bytes(16)",
  },
  { what: "random numbers of OpenSSL, and keys made from them", inCopy: "the same", look: "ssl.RAND_bytes(16)" },
  {
    what: "random numbers of OpenSSL after ssl.RAND_add(os.urandom(32), 32)",
    inCopy: "its own",
    look: "ssl.RAND_add(os.urandom(32), 32), ssl.RAND_bytes(16)",
  },
  {
    what: "random numbers of BoringSSL (Bun, Chromium), and keys made from them",
    inCopy: "its own",
    look: "boring()",
  },
  {
    what: "memory marked to be wiped in forks (MADV_WIPEONFORK): empty",
    inCopy: "its own",
    look: "marked[:4]",
  },
  { what: "random numbers of the kernel (getrandom)", inCopy: "its own", look: "os.urandom(16)" },
  { what: "random numbers of the kernel (/dev/urandom)", inCopy: "its own", look: "read('/dev/urandom', 'rb')" },
  { what: "/etc/machine-id", inCopy: "its own", look: "read('/etc/machine-id')" },
  {
    what: "the host name",
    inCopy: "the same",
    look: "os.uname().nodename",
  },
  { what: "process ids", inCopy: "the same", look: "os.getpid(), os.getppid()" },
  { what: "boot_id", inCopy: "its own", look: "read('/proc/sys/kernel/random/boot_id')" },
  {
    what: "E2B_SANDBOX_ID in the environment of processes in the checkpoint",
    inCopy: "the same",
    look: "os.environ['E2B_SANDBOX_ID']",
  },
  {
    what: "the sandbox id in /run/e2b and in the environment of new processes",
    inCopy: "its own",
    look: "read('/run/e2b/.E2B_SANDBOX_ID')",
  },
];
