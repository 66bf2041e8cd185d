/** What a policy says of an address or a name. The firewall says the same of addresses. */
import { DomainPatterns } from "../contract/domain-pattern.ts";
import type { EgressPolicy } from "../contract/internal/host.ts";
import { Ipv4Ranges } from "../contract/ip-range.ts";

export class EgressJudge {
  readonly #allowed: Ipv4Ranges;
  readonly #denied: Ipv4Ranges;
  readonly #names: DomainPatterns;
  readonly #private: Ipv4Ranges;

  constructor(readonly policy: EgressPolicy) {
    this.#allowed = new Ipv4Ranges(policy.allowRanges);
    this.#denied = new Ipv4Ranges(policy.denyRanges);
    this.#names = new DomainPatterns(policy.allowNames);
    this.#private = new Ipv4Ranges(policy.privateRanges ?? []);
  }

  /** Of a connection that no name is known of. */
  allowsAddress(address: string): boolean {
    return this.#allowed.has(address) || !this.#denied.has(address);
  }

  /** Whether it is in a private network that is open, although closed to others. */
  opens(address: string): boolean {
    return this.#private.has(address);
  }

  allowsName(name: string): boolean {
    return this.#names.match(name);
  }

  /** Whether the sandbox may ask for this name. Where everything is denied, a question is a way out like any other. */
  mayAsk(name: string): boolean {
    return !this.#denied.isAll || this.#names.match(name);
  }
}
