/**
 * Limits that the kernel keeps per user, and once more for all user namespaces of one owner together. What a sandbox
 * uses also counts for the machine's root, which owns the namespaces of all sandboxes. The bound there is the limit of
 * the process that made the namespace. So this server raises its own limits as far as it can, and each sandbox gets a
 * share that does not depend on others.
 */
import { FFIType } from "bun:ffi";
import { callResult, onFirstUse, pointerTo, requireResult, SystemError } from "../base/c-library.ts";
import { Fault } from "../contract/fault.ts";

const libc = onFirstUse({
  prlimit: { args: [FFIType.i32, FFIType.i32, FFIType.ptr, FFIType.ptr], returns: FFIType.i32 },
});

/** Resource numbers of the kernel. */
const RESOURCES = { RLIMIT_NPROC: 6, RLIMIT_MEMLOCK: 8, RLIMIT_SIGPENDING: 11, RLIMIT_MSGQUEUE: 12 };
type Resource = keyof typeof RESOURCES;
const TYPES = Object.keys(RESOURCES) as Resource[];
const UNLIMITED = 0xffff_ffff_ffff_ffffn;
const NO_LIMIT = Number.POSITIVE_INFINITY;

export interface UserLimit {
  type: Resource;
  soft: number;
  hard: number;
}

/** A kernel allows a user this many pending signals per MiB of memory; a sandbox counts as a machine of its size. */
const SIGNALS_PER_MIB = 4;
const SIGNALS_MIN = 1024;
/** The kernel's default. */
const QUEUE_BYTES = 819_200;
/** Where all sandboxes share a bound, each user of a sandbox gets this fraction of it: one queue of the usual size. */
const SHARERS = 8;

let before: ReadonlyMap<Resource, readonly [bigint, bigint]> | undefined;

/** Call this before the first sandbox is made. */
export function raiseUserLimits(): void {
  before ??= new Map(TYPES.map((type) => [type, limitOf(type)]));
  for (const [type, [, hard]] of before) {
    if (!set(type, UNLIMITED, UNLIMITED)) set(type, hard, hard);
  }
}

/** Whether `raiseUserLimits` can remove all bounds; tested without leaving them raised. */
export function canRaiseUserLimits(): boolean {
  return TYPES.every((type) => {
    const [soft, hard] = limitOf(type);
    return hard === UNLIMITED || (set(type, soft, UNLIMITED) && set(type, soft, hard));
  });
}

export function userLimitsFor(memoryMB: number): UserLimit[] {
  const signals = Math.min(
    Math.max(SIGNALS_MIN, memoryMB * SIGNALS_PER_MIB),
    asNumber(limitOf("RLIMIT_SIGPENDING")[1]),
  );
  const [, queues] = limitOf("RLIMIT_MSGQUEUE");
  const bytes = queues === UNLIMITED ? QUEUE_BYTES : Math.min(QUEUE_BYTES, Math.floor(Number(queues) / SHARERS));
  return [
    asBefore("RLIMIT_NPROC"),
    asBefore("RLIMIT_MEMLOCK"),
    { type: "RLIMIT_SIGPENDING", soft: signals, hard: signals },
    { type: "RLIMIT_MSGQUEUE", soft: bytes, hard: bytes },
  ];
}

/** Holds for this process and those that it starts from now on. */
export function limitUsers(pid: number, limits: readonly UserLimit[]): void {
  for (const { type, soft, hard } of limits) {
    const wanted = new BigUint64Array([soft, hard].map((value) => (value === NO_LIMIT ? UNLIMITED : BigInt(value))));
    const result = callResult(`prlimit ${type}`, () => libc().prlimit(pid, RESOURCES[type], pointerTo(wanted), null));
    if (result instanceof SystemError) throw new Fault(500, result.message, { cause: result });
  }
}

function asBefore(type: Resource): UserLimit {
  const [soft, hard] = before?.get(type) ?? limitOf(type);
  return { type, soft: asNumber(soft), hard: asNumber(hard) };
}

function limitOf(type: Resource): readonly [bigint, bigint] {
  const found = new BigUint64Array(2);
  requireResult("prlimit", () => libc().prlimit(0, RESOURCES[type], null, pointerTo(found)));
  return [found[0] ?? 0n, found[1] ?? 0n];
}

/** False: more than this process may have. */
function set(type: Resource, soft: bigint, hard: bigint): boolean {
  const wanted = new BigUint64Array([soft, hard]);
  return !(
    callResult("prlimit", () => libc().prlimit(0, RESOURCES[type], pointerTo(wanted), null)) instanceof SystemError
  );
}

function asNumber(limit: bigint): number {
  return limit === UNLIMITED ? NO_LIMIT : Number(limit);
}
