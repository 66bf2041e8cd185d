/**
 * The guest gets the processors of its sandbox before the processes of users, which have the niceness that a program
 * expects,
 * 0. Only from outside can somebody be put first: root in a sandbox may only ever step back. Within the cgroup of the
 * sandbox; what it gets of the machine does not change.
 */
import { readdirSync, readFileSync } from "node:fs";
import { setPriority } from "node:os";

/** Of a guest: threads, and children of its keeper. A sandbox could have made more appear. */
const GUEST_PRIORITY_TURNS_MAX = 64;

/**
 * Twenty-eight times the share of each user process: thousands of them leave the guest enough to answer within a
 * second.
 */
const GUEST_NICENESS = -15;
/** What the sandbox's init starts first, as it is numbered inside: the shell that keeps the guest alive. */
const KEEPER_PID_INSIDE = 2;

/**
 * Puts first the init of a sandbox, `pid`, and what it has started of ours. What these start inherits it: done before
 * the sandbox starts, it holds for every guest there. A restored one has to be put first again.
 */
export function putGuestFirst(pid: number): void {
  const keepers = childrenOf(pid).filter((child) => pidInside(child) === KEEPER_PID_INSIDE);
  for (const each of [pid, ...keepers, ...keepers.flatMap(childrenOf)]) {
    for (const thread of numbersIn(() => readdirSync(`/proc/${each}/task`))) {
      try {
        setPriority(thread, GUEST_NICENESS);
      } catch {
        // Gone already, or we may not: the guest then puts users behind itself, as far as it can.
      }
    }
  }
}

function childrenOf(pid: number): number[] {
  return numbersIn(() => readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" "));
}

/** The last number of the line is the one in the innermost namespace. */
function pidInside(pid: number): number | undefined {
  return numbersIn(() => /^NSpid:\s+(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]?.split(/\s+/)).at(
    -1,
  );
}

/** None of a process that is gone. */
function numbersIn(read: () => string[] | undefined): number[] {
  try {
    return (read() ?? [])
      .filter((text) => /^\d+$/.test(text))
      .map(Number)
      .slice(0, GUEST_PRIORITY_TURNS_MAX);
  } catch {
    return [];
  }
}
