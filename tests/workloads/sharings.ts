/** What a copy has in common with its original, and what not. Each is a Python expression that both are asked. */
interface Sharing {
  /** As the row in docs/pause.md says it. */
  what: string;
  inCopy: "the same" | "its own";
  look: string;
}

/** Evaluates each line. It has used every generator before it is copied. */
export const SHARING_PROGRAM = `
import numpy, os, random, ssl, sys
word = os.urandom(16).hex()
open("/tmp/file", "w").write(word)
generator = numpy.random.default_rng()
os.urandom(8), random.random(), ssl.RAND_bytes(8), generator.random()
read = lambda path, mode="r": open(path, mode).read(64)
print("<ready>")
for line in sys.stdin: print("<%r>" % (eval(line),))
`;

export const sharings: readonly Sharing[] = [
  { what: "everything in memory and on disk, secrets among it", inCopy: "the same", look: "word, read('/tmp/file')" },
  {
    what: "random numbers of Python and numpy",
    inCopy: "the same",
    look: "random.getrandbits(64), generator.bytes(16)",
  },
  { what: "random numbers of OpenSSL, and so the keys it makes next", inCopy: "the same", look: "ssl.RAND_bytes(16)" },
  { what: "random numbers of the kernel (getrandom)", inCopy: "its own", look: "os.urandom(16)" },
  { what: "random numbers of the kernel (/dev/urandom)", inCopy: "its own", look: "read('/dev/urandom', 'rb')" },
  { what: "/etc/machine-id", inCopy: "its own", look: "read('/etc/machine-id')" },
  {
    what: "the host name",
    inCopy: "its own",
    look: "os.uname().nodename",
  },
  { what: "process ids", inCopy: "the same", look: "os.getpid(), os.getppid()" },
  { what: "boot_id", inCopy: "its own", look: "read('/proc/sys/kernel/random/boot_id')" },
  {
    what: "E2B_SANDBOX_ID in the environment of a process that ran already",
    inCopy: "the same",
    look: "os.environ['E2B_SANDBOX_ID']",
  },
  {
    what: "the sandbox id in /run/e2b, and in the environment of processes that clients start from then on",
    inCopy: "its own",
    look: "read('/run/e2b/.E2B_SANDBOX_ID')",
  },
];
