/** IP addresses and ranges as users write them: `1.2.3.4`, `10.0.0.0/8`, `2001:db8::/32`. */

/** First and last address as numbers, both inclusive. */
interface Span {
  first: number;
  last: number;
}

const IPV4_BITS = 32;
const IPV6_BITS = 128;
const IPV6_GROUPS = 8;
const IPV4_SIZE = 2 ** IPV4_BITS;

/** Normalises an IPv4 address or range: `10.1.2.3/8` becomes `10.0.0.0/8`. Undefined: neither. */
export function ipv4Range(text: string): string | undefined {
  const span = spanOf(text);
  if (span === undefined) return undefined;
  return `${dotted(span.first)}/${IPV4_BITS - Math.log2(span.last - span.first + 1)}`;
}

export function isIpv6Range(text: string): boolean {
  const { address, prefix } = split(text, IPV6_BITS);
  return ipv6Groups(address) !== undefined && prefix !== undefined;
}

/** A set of IPv4 ranges. Other input is ignored. */
export class Ipv4Ranges {
  /** Sorted, and not adjacent. */
  readonly #spans: Span[] = [];

  constructor(ranges: readonly string[]) {
    const spans = ranges.flatMap((range) => spanOf(range) ?? []).sort((one, other) => one.first - other.first);
    for (const { first, last } of spans) {
      const before = this.#spans.at(-1);
      if (before !== undefined && first <= before.last + 1) before.last = Math.max(before.last, last);
      else this.#spans.push({ first, last });
    }
  }

  /** Whether the ranges cover every address. */
  get isAll(): boolean {
    const [only] = this.#spans;
    return only?.first === 0 && only.last === IPV4_SIZE - 1;
  }

  /** Sorted, not adjacent: `1.2.3.4`, or `10.0.0.0-10.255.255.255`. */
  get spans(): string[] {
    return this.#spans.map(({ first, last }) => (first === last ? dotted(first) : `${dotted(first)}-${dotted(last)}`));
  }

  /** The addresses that are in none of the others. */
  without(others: Ipv4Ranges): Ipv4Ranges {
    const left = new Ipv4Ranges([]);
    for (const { first, last } of this.#spans) {
      let from = first;
      for (const other of others.#spans) {
        if (other.last < from || other.first > last) continue;
        if (other.first > from) left.#spans.push({ first: from, last: other.first - 1 });
        from = other.last + 1;
      }
      if (from <= last) left.#spans.push({ first: from, last });
    }
    return left;
  }

  /** The fewest ranges with a prefix length, sorted. */
  get cidrs(): string[] {
    const found: string[] = [];
    for (const { first, last } of this.#spans) {
      for (let from = first; from <= last; ) {
        let size = 1;
        while (from % (size * 2) === 0 && from + size * 2 - 1 <= last) size *= 2;
        found.push(`${dotted(from)}/${IPV4_BITS - Math.log2(size)}`);
        from += size;
      }
    }
    return found;
  }

  /** False for anything but an IPv4 address. */
  has(address: string): boolean {
    if (!isIpv4(address)) return false;
    const wanted = numberOf(address);
    return this.#spans.some(({ first, last }) => first <= wanted && wanted <= last);
  }
}

function spanOf(text: string): Span | undefined {
  const { address, prefix } = split(text, IPV4_BITS);
  if (!isIpv4(address) || prefix === undefined) return undefined;
  const size = 2 ** (IPV4_BITS - prefix);
  const first = Math.floor(numberOf(address) / size) * size;
  return { first, last: first + size - 1 };
}

function split(text: string, bits: number): { address: string; prefix: number | undefined } {
  const slash = text.indexOf("/");
  if (slash < 0) return { address: text, prefix: bits };
  const length = text.slice(slash + 1);
  const isLength = /^(0|[1-9]\d{0,2})$/.test(length) && Number(length) <= bits;
  return { address: text.slice(0, slash), prefix: isLength ? Number(length) : undefined };
}

export function isIpv4(text: string): boolean {
  return (
    /^(?:(?:0|[1-9]\d{0,2})\.){3}(?:0|[1-9]\d{0,2})$/.test(text) && text.split(".").every((part) => Number(part) < 256)
  );
}

/**
 * The eight groups of an IPv6 address; undefined for anything else, including an address with a zone, which is local to
 * a machine. URL cannot check this: it accepts `::1:`, and rejects some addresses that end in an IPv4 address.
 */
export function ipv6Groups(text: string): number[] | undefined {
  const [head = "", tail, ...more] = text.split("::");
  if (more.length > 0 || !text.includes(":")) return undefined;
  const last = text.slice(text.lastIndexOf(":") + 1);
  // The last two groups may be written as an IPv4 address.
  const mixed = isIpv4(last) ? [Math.floor(numberOf(last) / 2 ** 16), numberOf(last) % 2 ** 16] : [];
  const read = (part: string) => (part === "" ? [] : part.split(":").map(groupOf));
  const before = read(head);
  const after = read(tail ?? "");
  if (mixed.length > 0) (tail === undefined ? before : after).splice(-1, 1, ...mixed);
  const count = before.length + after.length;
  if ([...before, ...after].some(Number.isNaN) || (tail === undefined ? count !== IPV6_GROUPS : count >= IPV6_GROUPS)) {
    return undefined;
  }
  return [...before, ...Array<number>(IPV6_GROUPS - count).fill(0), ...after];
}

function groupOf(text: string): number {
  return /^[0-9a-f]{1,4}$/i.test(text) ? Number.parseInt(text, 16) : Number.NaN;
}

/** The IPv4 address in `::ffff:1.2.3.4`, in any notation; undefined for any other address. */
export function mappedIpv4(text: string): string | undefined {
  const groups = ipv6Groups(text);
  if (groups === undefined || groups[5] !== 0xffff || groups.slice(0, 5).some((group) => group !== 0)) return undefined;
  return dotted((groups[6] ?? 0) * 2 ** 16 + (groups[7] ?? 0));
}

function numberOf(address: string): number {
  return address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
}

/** The notation `1.2.3.4` of an address as a number, signed or not. */
export function dotted(address: number): string {
  return [24, 16, 8, 0].map((shift) => (address >>> shift) & 255).join(".");
}
