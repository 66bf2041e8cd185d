/** Kernel settings for the network namespace of a sandbox. */
import { ID_COUNT } from "../../system/id-range.ts";

/** Retransmissions to an unresponsive peer after the program inside has closed or ended: about 6 seconds. */
const ORPHAN_RETRIES = 4;

/** From the host, which configures the new namespace of a restore, the first group has another number. */
export function namespaceSettings(firstGroup: number): Record<string, string> {
  return {
    // Allows ping without raw sockets.
    "net.ipv4.ping_group_range": `${firstGroup} ${firstGroup + ID_COUNT - 1}`,
    // For the interface that is connected later; the loopback keeps ::1.
    "net.ipv6.conf.default.disable_ipv6": "1",
    // Lets a program that had bound the address of an earlier slot be restored on another slot.
    "net.ipv4.ip_nonlocal_bind": "1",
    // The peers of an ended sandbox get no reply; its connections would keep the namespace and cgroup alive for
    // minutes.
    "net.ipv4.tcp_orphan_retries": String(ORPHAN_RETRIES),
  };
}
