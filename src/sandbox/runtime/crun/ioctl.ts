/**
 * The forbidden ioctl requests, and how an allow list can express "all but these". The kernel reads the lower half of
 * the request number and a filter the whole, so the same request with another upper half would pass a comparison with
 * each forbidden number. The filter therefore compares leading bits of the lower half.
 */

/**
 * TIOCSTI and TIOCLINUX type into a terminal, TIOCLINUX into the machine's own. The others make the kernel load bridge
 * and VLAN modules before it checks the caller's rights.
 */
export const FORBIDDEN_REQUESTS = [
  0x5412, // TIOCSTI
  0x541c, // TIOCLINUX
  0x8940, // SIOCGIFBR
  0x8941, // SIOCSIFBR
  0x8982, // SIOCGIFVLAN
  0x8983, // SIOCSIFVLAN
  0x89a0, // SIOCBRADDBR
  0x89a1, // SIOCBRDELBR
];

const BITS = 32;

/** A mask of leading bits, and their value in allowed numbers. */
interface LeadingBits {
  mask: number;
  value: number;
}

/** The smallest list that covers every number but the closed ones. */
export function allExcept(closed: readonly number[], value = 0, length = 0): LeadingBits[] {
  const mask = length === 0 ? 0 : (~0 << (BITS - length)) >>> 0;
  if (!closed.some((number) => (number & mask) >>> 0 === value)) return [{ mask, value }];
  if (length === BITS) return [];
  const next = 2 ** (BITS - length - 1);
  return [...allExcept(closed, value, length + 1), ...allExcept(closed, value + next, length + 1)];
}
