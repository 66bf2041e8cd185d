/**
 * Allow list for prctl, and for arch_prctl where it exists, by the numbers of linux/prctl.h. Not allowed are
 * protections that a process sets for itself and that a pause cannot keep: memory that is never both writable and
 * executable (MDWE; CRIU cannot even dump such a process), speculation control, the time stamp counter, syscall
 * dispatch, pointer keys, tagged memory, core scheduling, shadow stacks, cpuid faulting. Page merging (KSM) is not
 * allowed because timing reveals which pages are merged. Queries about any of these are allowed.
 */

export const PRCTL_ALLOWED: readonly number[] = [
  [1, 2], // signal when the parent ends
  [3, 4], // dumpable
  [7, 8, 23, 24, 27, 28, 47], // capabilities
  [13, 14, 29, 30], // timing
  [15, 16], // name
  [21, 22], // seccomp
  [31, 32], // performance events
  [33, 34], // memory failure
  [36, 37], // subreaper
  [38, 39], // no new privileges
  [40], // address of the thread id
  [41, 42], // huge pages
  [50, 51, 63, 64], // vector lengths of this thread
  [54], // reset of pointer keys
  // Queries only: TSC, speculation, tagged memory, I/O flusher, pointer keys, MDWE, merging, shadow stack.
  [25, 52, 56, 58, 61, 66, 68, 74],
  [0x53564d41, 0x59616d61, 0x41555856], // PR_SET_VMA, PR_SET_PTRACER, PR_GET_AUXV
].flat();

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
