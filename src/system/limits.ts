/** Bounds that several files of this module share. Units come last in a name. */
import { scaled } from "../base/time-factor.ts";

/** Netlink responses: bytes to read at once, and reads until a request counts as unanswered. */
export const NETLINK_ANSWER_BYTES = 64 * 1024;
export const NETLINK_ANSWERS_MAX = 4096;
/**
 * Timeout for the processes of a cgroup to end, however many hierarchies it is in. On a busy machine the memory of a
 * large sandbox takes a while to be freed.
 */
export const CGROUP_REMOVE_MS = scaled(20_000);
