/**
 * Same-page merging of the kernel (KSM): equal pages of marked processes are kept once, and copied again when one of
 * them writes. A marked process passes the mark on to all programs that it starts.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { errorMessage } from "../base/error-message.ts";
import { Fault } from "../contract/fault.ts";
import { attempt } from "./command.ts";
import { pageSize } from "./page-size.ts";

/** Settings and counters of ksmd, the kernel thread that merges. */
export const MERGING_FOLDER = "/sys/kernel/mm/ksm";

const CALLS = process.arch === "arm64" ? { prctl: 167, personality: 92 } : { prctl: 157, personality: 135 };
const PR_SET_MEMORY_MERGE = 67;
const ADDR_NO_RANDOMIZE = 0x0040000;
const MARK = `syscall(${CALLS.prctl}, ${PR_SET_MEMORY_MERGE}, 1, 0, 0, 0) == 0 or die "prctl: $!\\n";`;
const BECOME = 'exec { $ARGV[0] } @ARGV or die "$!\\n";';

/**
 * Command prefix that marks the program after it. Bun cannot make a system call between fork and exec, and marking the
 * server itself would mark everything that it starts. Perl is part of every Debian and Ubuntu system.
 */
export const MERGEABLE: readonly string[] = ["perl", "-e", `${MARK} ${BECOME}`, "--"];

/**
 * Also without random addresses, until a process asks for them again: programs that have started alike then hold equal
 * pages, because equal objects have equal addresses.
 */
export const MERGEABLE_ALIKE: readonly string[] = [
  "perl",
  "-e",
  `${MARK} syscall(${CALLS.personality}, ${ADDR_NO_RANDOMIZE}); ${BECOME}`,
  "--",
];

/** A mapping that the kernel may merge, in /proc/PID/smaps. */
const MERGEABLE_MAPPING = /^VmFlags:.* mg\b/m;

/** Why the kernel cannot merge pages of sandboxes; undefined: it can. */
export async function mergingFault(): Promise<string | undefined> {
  const { exitCode, stdout, stderr } = await attempt([...MERGEABLE, "cat", "/proc/self/smaps"]).catch((error) => ({
    exitCode: 1,
    stdout: "",
    stderr: errorMessage(error),
  }));
  if (exitCode !== 0)
    return `the kernel does not mark processes for page merging (${stderr.trim()}); it needs Linux 6.7 with CONFIG_KSM`;
  if (!MERGEABLE_MAPPING.test(stdout)) return "the kernel drops the mark for page merging at exec; it needs Linux 6.7";
  return undefined;
}

/** Throws Fault 501 when the kernel cannot do what `setting` asks for. */
export async function requireMerging(setting: string): Promise<void> {
  const reason = await mergingFault();
  if (reason !== undefined) throw new Fault(501, `${setting}: ${reason}`);
}

/** Memory that merging keeps once for several users, and memory that it saves. Undefined: the kernel cannot merge. */
export function mergedMemory(): { sharedBytes: number; savedBytes: number } | undefined {
  if (!existsSync(MERGING_FOLDER)) return undefined;
  const bytes = (name: string) => Number(readFileSync(join(MERGING_FOLDER, name), "utf8")) * pageSize();
  return { sharedBytes: bytes("pages_shared"), savedBytes: bytes("pages_sharing") };
}

/** The pid of ksmd. Undefined: this pid namespace does not show it. */
export function ksmdPid(): number | undefined {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  // Kernel threads have the lowest numbers.
  return pids
    .map(Number)
    .toSorted((a, b) => a - b)
    .find((pid) => nameOf(pid) === "ksmd");
}

function nameOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
  } catch {
    // The process has ended.
    return "";
  }
}
