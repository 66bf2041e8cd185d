/**
 * A relay in the test's process for a sandbox with header rules, and sites of the outside with certificates of a test's
 * authority.
 */
import type { RuleAnswer } from "../../contract/internal/host.ts";
import type { Bounds } from "../program/bounds.ts";
import { RuleServer } from "../program/rule-server.ts";
import type { RuleRequest } from "../relay-messages.ts";
import { RelayFixture } from "./relay-fixture.ts";
import { TestAuthority } from "./test-authority.ts";

export class RuleFixture implements Disposable {
  /** Every question for headers. */
  readonly asked: RuleRequest[] = [];
  /** The names of all certificates. */
  readonly certified: string[] = [];
  /** A test replaces it. */
  answer: (asked: RuleRequest) => RuleAnswer | Promise<RuleAnswer> = () => ({
    headers: [["Authorization", "Bearer the-value"]],
  });

  private constructor(
    /** Signs the certificates that sandboxes see. */
    readonly authority: TestAuthority,
    /** Signs those of sites. */
    readonly sites: TestAuthority,
    readonly inner: RelayFixture,
  ) {}

  static async open(
    sitePort: number,
    sites: TestAuthority,
    options: { bounds?: Partial<Bounds>; chosen?: { address: string; port: number } } = {},
  ): Promise<RuleFixture> {
    const authority = await TestAuthority.open();
    const certificates = new Map<string, Promise<string>>();
    const rules = new RuleServer({ leafKeyPem: authority.leafKeyPem, roots: sites.certificatePem }, (question) => {
      if ("certify" in question) {
        const { host } = question.certify;
        fixture.certified.push(host);
        const signed = certificates.get(host) ?? authority.sign(host);
        certificates.set(host, signed);
        void signed.then((certificatePem) => rules.answer(question.certify.question, { certificatePem }));
        return;
      }
      fixture.asked.push(question.asked);
      void Promise.resolve(fixture.answer(question.asked)).then((answer) =>
        rules.answer(question.asked.question, answer),
      );
    });
    const inner = await RelayFixture.open(sitePort, options.bounds, { rules, chosen: options.chosen });
    const fixture = new RuleFixture(authority, sites, inner);
    return fixture;
  }

  [Symbol.dispose](): void {
    this.inner[Symbol.dispose]();
    this.authority[Symbol.dispose]();
  }
}
