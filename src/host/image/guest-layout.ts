/** What the guest folder hides inside a sandbox. */

/**
 * Folders that a sandbox is not to see: an empty one of ours is laid over each. Everybody may register triggers in
 * "pressure", without any bound, and a process that holds thousands of them takes minutes to be ended.
 */
export const HIDDEN_IN_PROC = ["acpi", "driver", "fs", "pressure", "scsi"];
