/**
 * Every bound in the project, by name. A loop, queue, buffer or wait that is not bounded by something here is a bug.
 * Units come last in the name.
 */

// Management interface
export const REQUEST_BODY_MAX_BYTES = 16 * 1024 * 1024;
export const TIMEOUT_DEFAULT_V1_SECONDS = 15;
export const TIMEOUT_DEFAULT_V2_SECONDS = 300;
export const REFRESH_DEFAULT_SECONDS = 15;
export const REFRESH_MAX_SECONDS = 3600;
export const INT32_MAX = 2_147_483_647;
export const PAGE_MAX = 100;

// Sandboxes
export const ACCESS_TOKENS_KEPT = 16;
export const SANDBOX_PIDS_MAX = 4096;
export const DISK_DEFAULT_MB = 10_240;

// Host work
export const COMMAND_DEFAULT_MS = 30_000;
export const COMMAND_OUTPUT_MAX_BYTES = 1024 * 1024;
export const GUEST_READY_MS = 30_000;
export const GUEST_CALL_MS = 10_000;
