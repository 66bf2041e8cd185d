/**
 * How TCP holds itself back where there is no network: between the machine and its sandboxes, and towards clients that
 * run on it. What a machine may be set to use for the internet, such as BBR, measures how fast a way is, and sends at
 * that pace by timers. Within a machine a way is as fast as its processors, and the timers are much of the work.
 *
 * This is the one that every kernel has and everybody may use. It sends whatever the other side has room for.
 */
export const LOCAL_CONGESTION = "reno";
