/** Bounds of what is mounted. */

/** Of the run folder where it has a mount of its own: what /run has on most machines. Only what is used is taken. */
export const RUN_FOLDER_MEMORY = "20%";
