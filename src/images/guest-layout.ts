/** What the guest folder hides inside a sandbox. */

/**
 * Folders that a sandbox is not to see: an empty one of ours is laid over each. Everybody may register triggers in
 * "pressure", without any bound, and a process that holds thousands of them takes minutes to be ended.
 */
export const HIDDEN_IN_PROC = ["acpi", "driver", "fs", "pressure", "scsi"];

/**
 * Files that everybody could read otherwise, with an empty one of ours over each; what the kernel keeps to the
 * machine's root needs none.
 */
export const EMPTY_IN_PROC = [
  "cmdline",
  "diskstats",
  "interrupts",
  "kallsyms",
  "kcore",
  "keys",
  "key-users",
  "locks",
  "modules",
  "partitions",
  "sched_debug",
  "swaps",
  "timer_list",
];
