/** Translates CRIU's log of a failure into one sentence for the client: which process, and why. */
import { Fault } from "../../../contract/fault.ts";
import { procText } from "../../../system/proc-text.ts";

const CRIU_SAID_MAX_CHARS = 300;

const NO_SPACE = /no space left on device|disk quota exceeded|\bENOSPC\b/i;
const ADVICE = "End that process, or pause with memory: false to keep the files alone";

/** CRIU's messages, and what they mean in plain words. */
const REASONS: readonly [RegExp, string][] = [
  [
    /non-zombie \d+ found, state D/,
    "it waits inside the kernel and cannot be stopped there (in vfork, for one, until its child has started a program)",
  ],
  [/Can't lookup mount=\d+ for fd=/, "it holds a POSIX message queue, or another file of the kernel's own, open"],
  [/packetized mode for pipes/, "it holds a pipe in packet mode (O_DIRECT)"],
  [
    /is traced|ptrace|Unseizable non-zombie \d+ found, state [tT]/i,
    "it is being traced by another process (a debugger or strace)",
  ],
  [/io_uring/i, "it uses io_uring"],
  [
    /half of stream unix connection|external socket|unix.*(external|peer)/i,
    "it holds a socket whose other end is outside of the sandbox",
  ],
  [
    /nested (user|pid|mount)|namespace.*(nested|not supported|Can't dump)|Can't dump nested/i,
    "it has made namespaces of its own",
  ],
  [/ghost file|Can't dump ghost/i, "it holds a deleted file open that is too large to be kept"],
  [/netlink/i, "it holds a netlink socket with unread messages"],
  [/fuse/i, "it uses a FUSE mount"],
];

/**
 * `processes` are the sandbox's host pids. The log contains file names, so a sandbox can make it say anything: the
 * message never mentions a process outside the sandbox.
 */
export function explain(log: string, processes: readonly number[]): Fault {
  const errors = log.split("\n").filter((line) => /\bError \(/.test(line) && !/RLIMIT_NOFILE for self/.test(line));
  const cause = new Error(errors.slice(-20).join("\n").slice(-4000));
  if (NO_SPACE.test(errors.join("\n"))) {
    return new Fault(507, "the disk has no space for this sandbox's memory; it is still running", { cause });
  }
  const first = errors[0];
  if (first === undefined) {
    return new Fault(500, "the checkpoint could not be written; the sandbox is still running", { cause });
  }
  const message = printable(first.replace(/^.*?Error \([^)]*\):\s*/, "")).trim();
  const reason = REASONS.find(([pattern]) => pattern.test(errors.join("\n")))?.[1] ?? `CRIU says: ${message}`;
  return refusal(culprit(log, errors, processes), reason, cause);
}

/** An error for a reason found without CRIU. `pid` is a host pid. */
export function cannotCheckpoint(pid: number, reason: string): Fault {
  return refusal(nameOf(pid), reason);
}

function refusal(who: string, reason: string, cause?: Error): Fault {
  return new Fault(422, `the memory of this sandbox cannot be kept: ${who}: ${reason}. ${ADVICE}`, { cause });
}

/** The process that an error names, or the last one that CRIU worked on: it handles processes one by one. */
function culprit(log: string, errors: readonly string[], processes: readonly number[]): string {
  const before = log.slice(0, log.indexOf(errors[0] ?? ""));
  const turns = [...before.matchAll(/(?:Dumping task \(pid: |Seized task |Obtaining task stat .*?pid: ?)(\d+)/g)];
  const named = errors.flatMap((line) => /(?:\bpid:? ?|\btask |non-zombie )(\d+)/.exec(line)?.[1] ?? []);
  const pid = Number(named[0] ?? turns.at(-1)?.[1] ?? 0);
  return processes.includes(pid) ? nameOf(pid) : "a process";
}

/** Name and pid as seen inside the sandbox. */
function nameOf(pid: number): string {
  const status = procText(`/proc/${pid}/status`);
  const name = printable(/^Name:\s*(.*)$/m.exec(status)?.[1] ?? "unknown");
  const inside = /^NSpid:.*\s(\d+)$/m.exec(status)?.[1];
  return inside === undefined ? `process "${name}"` : `process ${inside} "${name}"`;
}

/** Text from a sandbox may end up on a terminal, so control characters are replaced. */
function printable(text: string): string {
  return text.replace(/\p{C}/gu, "?").slice(0, CRIU_SAID_MAX_CHARS);
}
