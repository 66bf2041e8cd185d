/** Bounds that several files of this module share. Units come last in a name. */
import { scaled } from "../base/time-factor.ts";

/** What the kernel says about its tables of the network: read at once, and how often until a request is answered. */
export const NETLINK_ANSWER_BYTES = 64 * 1024;
export const NETLINK_ANSWERS_MAX = 4096;
/**
 * What was told to end is waited for so long, however many trees it is in: the memory of a large sandbox takes a while
 * to be given back, on a machine that is busy. What then runs on is looked at again and again, with pauses that double
 * from the second to the third, so many at once; a log line names so many processes of it.
 */
export const CGROUP_REMOVE_MS = scaled(20_000);
