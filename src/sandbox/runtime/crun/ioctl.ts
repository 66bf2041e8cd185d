/**
 * The requests of ioctl that are closed, and how a filter that lists what is allowed says "all but these". The kernel
 * looks at the lower half of the number and a filter at the whole, so a comparison with each closed one would be passed
 * by the same request with another upper half: what is compared are leading bits of the lower half.
 */

/**
 * The kernel would type into a terminal for whoever reads it (TIOCSTI), or into the machine's (TIOCLINUX); and load the
 * modules of bridges and of VLANs for whoever asks, before it looks at who that is.
 */
export const CLOSED_REQUESTS = [
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

/** Leading bits, by a mask, and what they are in numbers that are allowed. */
interface LeadingBits {
  mask: number;
  value: number;
}

/** As few as cover every number but the closed ones. */
export function allBut(closed: readonly number[], value = 0, length = 0): LeadingBits[] {
  const mask = length === 0 ? 0 : (~0 << (BITS - length)) >>> 0;
  if (!closed.some((number) => (number & mask) >>> 0 === value)) return [{ mask, value }];
  if (length === BITS) return [];
  const next = 2 ** (BITS - length - 1);
  return [...allBut(closed, value, length + 1), ...allBut(closed, value + next, length + 1)];
}
