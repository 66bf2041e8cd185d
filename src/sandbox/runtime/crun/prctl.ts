/**
 * What a process may set with prctl, and with arch_prctl where it exists. An allow list, by the numbers of
 * linux/prctl.h. Not allowed are protections that a process sets for itself and that a pause cannot keep: memory that
 * is never both writable and executable (MDWE; CRIU cannot even dump such a process), speculation control, the time
 * stamp counter, syscall dispatch, pointer keys, tagged memory, core scheduling, shadow stacks, cpuid faulting. Page
 * merging (KSM) is not allowed because timing reveals which pages are merged. Queries about any of these are allowed.
 */

const PARENT_DEATH = [1, 2];
const DUMPABLE = [3, 4];
const CAPABILITIES = [7, 8, 23, 24, 27, 28, 47];
const NAME = [15, 16];
const SECCOMP = [21, 22];
const NO_NEW_PRIVILEGES = [38, 39];
const SUBREAPER = [36, 37];
const TIMING = [13, 14, 29, 30];
const PERFORMANCE_EVENTS = [31, 32];
const MEMORY_FAILURE = [33, 34];
const HUGE_PAGES = [41, 42];
const THREAD_ID_ADDRESS = [40];
/** Vector lengths of this thread. */
const VECTORS = [50, 51, 63, 64];
const PAC_RESET_KEYS = 54;
/** TSC, speculation, tagged memory, I/O flusher, pointer keys, MDWE, merging, shadow stack: queries only. */
const ASKED = [25, 52, 56, 58, 61, 66, 68, 74];
const PR_SET_VMA = 0x53564d41;
const PR_SET_PTRACER = 0x59616d61;
const PR_GET_AUXV = 0x41555856;

export const PRCTL_ALLOWED: readonly number[] = [
  ...PARENT_DEATH,
  ...DUMPABLE,
  ...CAPABILITIES,
  ...NAME,
  ...SECCOMP,
  ...NO_NEW_PRIVILEGES,
  ...SUBREAPER,
  ...TIMING,
  ...PERFORMANCE_EVENTS,
  ...MEMORY_FAILURE,
  ...HUGE_PAGES,
  ...THREAD_ID_ADDRESS,
  ...VECTORS,
  PAC_RESET_KEYS,
  ...ASKED,
  PR_SET_VMA,
  PR_SET_PTRACER,
  PR_GET_AUXV,
];

/** Existing numbers, and some future ones, fail as on a kernel that does not know them. */
const PRCTL_NUMBERS = 128;
export const PRCTL_ABSENT: readonly number[] = Array.from({ length: PRCTL_NUMBERS }, (_, number) => number).filter(
  (number) => !PRCTL_ALLOWED.includes(number),
);

/**
 * On x64: thread-local storage registers, cpuid faulting query, permission for large registers, shadow stack status.
 */
export const ARCH_PRCTL_ALLOWED: readonly number[] = [
  0x1001, 0x1002, 0x1003, 0x1004, 0x1011, 0x1021, 0x1022, 0x1023, 0x5005,
];
/** cpuid faulting; shadow stack queries of older libraries; tagged addresses; shadow stacks. */
export const ARCH_PRCTL_ABSENT: readonly number[] = [
  0x1012, 0x3001, 0x3002, 0x3003, 0x3004, 0x3005, 0x3006, 0x4001, 0x4002, 0x4003, 0x4004, 0x5001, 0x5002, 0x5003,
  0x5004,
];
