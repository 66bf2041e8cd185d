/** How the guest folder looks from inside a sandbox. */

/** Where the guest folder appears inside every sandbox. Binaries in it are linked for exactly this place. */
export const GUEST_MOUNT = "/.sandlot";

/**
 * Folders that a sandbox is not to see: an empty one of ours is laid over each. Everybody may register triggers in
 * "pressure", without any bound, and a process that holds thousands of them takes minutes to be ended.
 */
export const HIDDEN_IN_PROC = ["acpi", "driver", "fs", "pressure", "scsi"];
