/**
 * Gives the guest priority over user processes of its sandbox, which keep the default niceness 0. Only the host can
 * raise a priority: root in a sandbox can only lower it. The effect is limited to the sandbox's cgroup; its share of
 * the machine does not change.
 */
import { readdirSync, readFileSync } from "node:fs";
import { setPriority } from "node:os";

/** Limit for threads and for children of the keeper, because a sandbox could create many. */
const GUEST_PRIORITY_TURNS_MAX = 64;

/** 28 times the share of a user process: beside thousands of them, the guest responds within a second. */
const GUEST_NICENESS = -15;
/** The pid, inside, of the first process that init starts: the shell that keeps the guest alive. */
const KEEPER_PID_INSIDE = 2;

/**
 * Raises the priority of a sandbox's init, `pid`, and of our processes below it. Child processes inherit it: when done
 * before the start, it holds for every later guest. A restored sandbox needs it again.
 */
export function putGuestFirst(pid: number): void {
  const keepers = childrenOf(pid).filter((child) => pidInside(child) === KEEPER_PID_INSIDE);
  for (const each of [pid, ...keepers, ...keepers.flatMap(childrenOf)]) {
    for (const thread of numbersIn(() => readdirSync(`/proc/${each}/task`))) {
      try {
        setPriority(thread, GUEST_NICENESS);
      } catch {
        // The thread is gone, or raising is not permitted: the guest then lowers the priority of user processes itself.
      }
    }
  }
}

function childrenOf(pid: number): number[] {
  return numbersIn(() => readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" "));
}

/** The last number of the line is the pid in the innermost namespace. */
function pidInside(pid: number): number | undefined {
  return numbersIn(() => /^NSpid:\s+(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]?.split(/\s+/)).at(
    -1,
  );
}

/** Empty for a process that is gone. */
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
