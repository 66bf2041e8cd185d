/** The files and folders of /proc that the guest folder hides inside a sandbox. */

/**
 * Folders to hide below an empty one. In "pressure" every process could register triggers without limit, and a process
 * with thousands of them takes minutes to end.
 */
export const HIDDEN_IN_PROC = ["acpi", "driver", "fs", "pressure", "scsi"];

/** World-readable files to hide below an empty one. Files that only the machine's root can read need none. */
export const EMPTY_IN_PROC =
  "cmdline diskstats interrupts kallsyms kcore keys key-users locks modules partitions sched_debug swaps timer_list".split(
    " ",
  );
