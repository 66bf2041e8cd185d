/** Bounds of what the kernel is asked by system calls. Units come last in a name. */
import { scaled } from "../../work/time-factor.ts";

/** What the kernel says about its tables of the network: read at once, and how often until a request is answered. */
export const NETLINK_ANSWER_BYTES = 64 * 1024;
export const NETLINK_ANSWERS_MAX = 4096;
/** The kernel's answers to so many requests fit a socket's buffer. */
export const CONNECTIONS_DESTROYED_AT_ONCE = 64;
/** How often a thread tries to come back from the network of a sandbox. */
export const RETURN_TRIES_MAX = 1000;
/** How long it may take to make an interface, or to remove some, with all that is to be done before. */
export const LINK_JOB_MS = scaled(30_000);
/** How long a question whether somebody listens may be under way before it is asked anew. */
export const PROBE_ANSWER_MS = 50;
