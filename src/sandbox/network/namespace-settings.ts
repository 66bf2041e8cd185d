/** Kernel settings of the network namespace of a sandbox. */
import { ID_COUNT } from "../../system/id-range.ts";

/**
 * How often the kernel sends to a peer that does not answer, for a program inside that has closed its connection or is
 * gone: for some 6 seconds.
 */
const ORPHAN_RETRIES = 4;

/**
 * A restored sandbox gets a new one, in which the host sets them again; it calls the first group inside by another
 * number.
 */
export function namespaceSettings(firstGroup: number): Record<string, string> {
  return {
    // ping without raw sockets.
    "net.ipv4.ping_group_range": `${firstGroup} ${firstGroup + ID_COUNT - 1}`,
    // For the interface that is plugged in later; the loopback keeps ::1.
    "net.ipv6.conf.default.disable_ipv6": "1",
    // A program that had bound an address of an earlier slot can be restored on another.
    "net.ipv4.ip_nonlocal_bind": "1",
    // When a sandbox ends, nobody answers any more; its connections would keep namespace and cgroup for minutes.
    "net.ipv4.tcp_orphan_retries": String(ORPHAN_RETRIES),
  };
}
