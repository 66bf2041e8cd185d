/** The files and folders of /proc that the guest folder hides inside a sandbox. */

/** Hidden below an empty folder. A process with thousands of triggers in "pressure" takes minutes to end. */
export const HIDDEN_IN_PROC = ["acpi", "driver", "fs", "pressure", "scsi"];

/** World-readable files to hide below an empty one. Files that only the machine's root can read need none. */
export const EMPTY_IN_PROC =
  "cmdline diskstats interrupts kallsyms kcore keys key-users locks modules partitions sched_debug swaps timer_list".split(
    " ",
  );
