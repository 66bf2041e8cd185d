/**
 * Starts a process as another user without a helper. Bun sets user and group of a new process before that executes its
 * program, but takes all other groups away. So the thread that starts it has the user's groups for this moment, and not
 * the right to change groups: the new process inherits both, keeps the groups, and loses all rights when it executes.
 * The thread itself stays root all the while.
 *
 * Until the new process has executed, it shares our memory, and we wait for it. Another process of its user could stop
 * it there, and with it the guest. So this is done only while there is nobody: in a sandbox that runs nothing else.
 */
import { readdirSync } from "node:fs";
import { logError } from "../system/log.ts";
import {
  type Identity,
  ownGroups,
  setGids,
  setGidsOfAllThreads,
  setGroups,
  setRightOverGroups,
} from "./system-calls.ts";

const ROOT = 0;
const FIRST_PROCESS = 1;

/** What `Bun.spawn` is told. */
type Ids = { uid?: number; gid?: number };

/** Whether this program may start processes of others, and is alone with those that keep it alive. */
export function canStartAsOthers(): boolean {
  if (process.geteuid?.() !== ROOT) return false;
  const ours = [FIRST_PROCESS, process.ppid, process.pid].map(String);
  return readdirSync("/proc").every((name) => !(name >= "0" && name < ":") || ours.includes(name));
}

/** `start` is to hand the ids on to `Bun.spawn`. Undefined is to start it as who we are. */
export function asUser<T>(user: Identity | undefined, start: (ids: Ids) => T): T {
  if (user === undefined) return start({});
  const own = { gid: process.getegid?.() ?? ROOT, groups: ownGroups() };
  const threads = threadIds();
  try {
    // With the group as one that it may take, although it has no right to change groups.
    const isReady = setGroups(user.groups) && setGids(user.gid, own.gid) && setRightOverGroups(false);
    if (!isReady) throw Object.assign(new Error("the kernel refuses to change groups"), { code: "EPERM" });
    return start({ uid: user.uid, gid: user.gid });
  } finally {
    takeBack(own, threads);
  }
}

/** A guest that kept another's groups would hand them to processes of root's: it ends, and is started again. */
function takeBack({ gid, groups }: { gid: number; groups: readonly number[] }, threadsBefore: readonly string[]): void {
  const isBack = setRightOverGroups(true) && setGids(gid, gid) && setGroups(groups);
  // The engine starts threads when it needs them. One that it has started just now has inherited the group, and with
  // threads of different ones the sandbox could not be paused.
  const isAlike = threadIds().every((id) => threadsBefore.includes(id)) || setGidsOfAllThreads(gid);
  if (isBack && isAlike) return;
  logError("the guest ends: it kept another user's groups", new Error("the kernel refuses to change them"));
  process.exit(1);
}

function threadIds(): string[] {
  return readdirSync("/proc/self/task");
}
