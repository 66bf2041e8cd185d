/** Name resolution of the fake host. */
import { CLOSED_IPV4 } from "../../contract/closed-ranges.ts";
import type { LookedUp } from "../../contract/internal/host.ts";
import { Ipv4Ranges, ipv4Range } from "../../contract/ip-range.ts";

const CLOSED = new Ipv4Ranges(CLOSED_IPV4.map(({ range }) => range));

export class FakeNames extends Map<string, readonly string[]> {
  lookUp(host: string, privateRanges: readonly string[]): LookedUp[] {
    const open = new Ipv4Ranges(privateRanges);
    const addresses = ipv4Range(host) === undefined ? (this.get(host) ?? []) : [host];
    return addresses.map((address) => ({ address, isClosed: CLOSED.has(address) && !open.has(address) }));
  }
}
