/**
 * Workloads that cannot be paused. The caller is told the process and the reason, and the sandbox runs on unchanged.
 */
import { expect } from "bun:test";
import type { Workload } from "./workload.ts";

export const refusals: Workload[] = [
  {
    what: "a process under a debugger (gdb, strace)",
    fate: "refused",
    async play(stage) {
      const gdb = await stage.command("exec gdb -q sleep");
      await gdb.say("set pagination off");
      await gdb.ask("break nanosleep\nstarti 1000", /Program stopped/);
      expect(await stage.refusedPause()).toMatch(/process \d+ "sleep": it is being traced by another process/);
      await gdb.ask("info inferiors", /process \d+/);
      await gdb.ask("kill", /killed/);
      await stage.pauseAndResume();
      await gdb.ask("print 6 * 7", /42/);
    },
  },
  refused(
    "an open POSIX message queue",
    /it holds a POSIX message queue/,
    "q = libc.mq_open(b'/q', os.O_CREAT | os.O_RDWR, 0o600, None)",
    "libc.close(q)",
  ),
  refused(
    "a pipe in packet mode (O_DIRECT)",
    /it holds a pipe in packet mode/,
    "r, w = os.pipe2(os.O_DIRECT)",
    "os.close(r); os.close(w)",
  ),
  refused(
    "a netlink socket with unread messages",
    /it holds a netlink socket with unread messages/,
    "n = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); n.send(struct.pack('=IHHIIBBHI', 20, 18, 0x301, 1, 0, 0, 0, 0, 0))",
    "n.close()",
  ),
  refused(
    "an unaccepted connection to a Unix socket, with data",
    /Non-empty write queue on an in-flight socket/,
    "l = socket.socket(socket.AF_UNIX); l.bind('/tmp/late'); l.listen(); c = socket.socket(socket.AF_UNIX); c.connect('/tmp/late'); c.send(b'early')",
    "l.accept()[0].close(); c.close()",
  ),
  refused(
    "a deleted file of more than 1 GiB that is still open",
    /it holds a deleted file open that is too large/,
    "f = open('/tmp/large', 'w'); os.posix_fallocate(f.fileno(), 0, 1100 << 20); os.unlink('/tmp/large')",
    "f.close()",
  ),
];

/** A program that holds a resource until told to release it; then the pause is possible. */
function refused(what: string, reason: RegExp, hold: string, release: string): Workload {
  const program = `
import ctypes, os, socket, struct, sys
libc = ctypes.CDLL(None)
word = os.urandom(8).hex()
${hold}
for line in sys.stdin:
    if line.strip() == "let go": ${release}
    print("<%s>" % word)
`;
  return {
    what,
    fate: "refused",
    async play(stage) {
      const holder = await stage.python(program);
      const word = await holder.ask("", /<(\w+)>/);
      const message = await stage.refusedPause();
      expect(message).toMatch(/process \d+ "python3": /);
      expect(message).toMatch(reason);
      expect(message).toContain("memory: false");
      expect(await holder.ask("let go", /<(\w+)>/)).toBe(word);
      await stage.pauseAndResume();
      expect(await holder.ask("", /<(\w+)>/)).toBe(word);
    },
  };
}
