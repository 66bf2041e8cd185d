/** Matches addresses, names and DNS queries with an egress policy. The firewall applies the same rules to addresses. */
import { DomainPatterns } from "../contract/domain-pattern.ts";
import type { EgressPolicy } from "../contract/internal/host.ts";
import { Ipv4Ranges } from "../contract/ip-range.ts";

export class EgressMatcher {
  readonly #allowed: Ipv4Ranges;
  readonly #denied: Ipv4Ranges;
  readonly #names: DomainPatterns;
  readonly #private: Ipv4Ranges;
  readonly #rules: DomainPatterns;

  constructor(readonly policy: EgressPolicy) {
    this.#allowed = new Ipv4Ranges(policy.allowRanges);
    this.#denied = new Ipv4Ranges(policy.denyRanges);
    this.#names = new DomainPatterns(policy.allowNames);
    this.#private = new Ipv4Ranges(policy.privateRanges ?? []);
    this.#rules = new DomainPatterns(policy.ruleNames ?? []);
  }

  /** For a connection whose host name is unknown. */
  allowsAddress(address: string): boolean {
    return this.#allowed.has(address) || !this.#denied.has(address);
  }

  /** Whether the policy opens a private network that is closed to other sandboxes. */
  opensPrivate(address: string): boolean {
    return this.#private.has(address);
  }

  allowsName(name: string): boolean {
    return this.#names.match(name);
  }

  get hasRules(): boolean {
    return (this.policy.ruleNames?.length ?? 0) > 0;
  }

  /** The pattern of the name's header rule. It does not matter here whether the policy allows the name. */
  ruleOf(name: string): string | undefined {
    return this.#rules.closest(name);
  }

  /** Where the policy denies all addresses, DNS would otherwise be a way out. */
  mayResolve(name: string): boolean {
    return !this.#denied.isAll || this.#names.match(name);
  }
}
