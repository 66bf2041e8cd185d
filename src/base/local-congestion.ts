/**
 * TCP congestion control for connections without a network: between the machine and its sandboxes, and to clients on
 * the same machine. A machine's default for the internet, such as BBR, measures the path and paces packets by timers.
 * Within a machine the path is as fast as its processors, and the timers are much of the work.
 *
 * Reno exists in every kernel, needs no privilege, and sends as much as the receiver has room for.
 */
export const LOCAL_CONGESTION = "reno";
