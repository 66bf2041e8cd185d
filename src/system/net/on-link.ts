/** The networks that this machine is directly connected to, from /proc/net/route: its LAN, for one. */

/** A wider range is not a LAN but a form of "everything" (a VPN, a point-to-point default route). */
const PREFIX_MIN = 8;

export function onLinkRanges(routeTable: string): string[] {
  const ranges = new Set<string>();
  for (const line of routeTable.trim().split("\n").slice(1)) {
    const [, destination, gateway, , , , , mask] = line.split("\t").map((field) => field.trim());
    if (destination === undefined || mask === undefined || gateway !== "00000000") continue;
    const prefix = bits(mask);
    if (prefix >= PREFIX_MIN) ranges.add(`${dotted(destination)}/${prefix}`);
  }
  return [...ranges].sort();
}

export function defaultRouteDevice(routeTable: string): string | undefined {
  for (const line of routeTable.trim().split("\n").slice(1)) {
    const [device, destination] = line.split("\t").map((field) => field.trim());
    if (destination === "00000000") return device;
  }
  return undefined;
}

/** The kernel prints addresses in hexadecimal, lowest byte first on all supported machines. */
function dotted(hex: string): string {
  return [6, 4, 2, 0].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)).join(".");
}

function bits(hexMask: string): number {
  let value = Number.parseInt(hexMask, 16);
  let count = 0;
  for (; value !== 0; value = Math.floor(value / 2)) count += value % 2;
  return count;
}
