/**
 * Requests what header rules need from the server: the headers of each request, and certificates. The relay stores
 * neither values nor the key of the authority.
 */
import { scaled } from "../../base/time-factor.ts";
import type { RuleAnswer } from "../../contract/internal/host.ts";
import type { RuleCertificate, RuleQuestion, RuleStart } from "../relay-messages.ts";

/** How long a request waits for its headers, or a connection for its certificate. */
const RULE_ANSWER_MS = scaled(10_000);
/** Questions of one sandbox without an answer. */
const RULE_QUESTIONS_PER_SANDBOX_MAX = 512;

export class RuleServer {
  readonly leafKeyPem: string;
  /** Authorities that may certify sites; undefined: those that the runtime brings. */
  readonly roots: string | undefined;
  readonly #pending = new Map<string, (answer: RuleAnswer | RuleCertificate) => void>();
  readonly #counts = new Map<string, number>();
  /** Answers to a relay that has died are for other questions. */
  readonly #prefix = crypto.randomUUID();
  #asked = 0;

  constructor(
    { leafKeyPem, roots }: RuleStart,
    private readonly send: (question: RuleQuestion) => void,
  ) {
    this.leafKeyPem = leafKeyPem;
    this.roots = roots ?? undefined;
  }

  async headers(source: string, pattern: string, host: string): Promise<RuleAnswer> {
    const failed = (why: string) => ({ failure: `header rule "${pattern}": ${why}` });
    return await this.#ask<RuleAnswer>(source, failed, (question) => ({ asked: { question, source, pattern, host } }));
  }

  async certificate(source: string, host: string): Promise<RuleCertificate> {
    const failed = (failure: string) => ({ failure });
    return await this.#ask<RuleCertificate>(source, failed, (question) => ({ certify: { question, source, host } }));
  }

  /** An unknown question has timed out. */
  answer(question: string, answer: RuleAnswer | RuleCertificate): void {
    this.#pending.get(question)?.(answer);
  }

  async #ask<Answer extends RuleAnswer | RuleCertificate>(
    source: string,
    failed: (why: string) => Answer,
    message: (question: string) => RuleQuestion,
  ): Promise<Answer> {
    const count = this.#counts.get(source) ?? 0;
    if (count >= RULE_QUESTIONS_PER_SANDBOX_MAX) return failed(`${count} requests of the sandbox wait already`);
    const question = `${this.#prefix}-${++this.#asked}`;
    const { promise, resolve } = Promise.withResolvers<Answer>();
    this.#pending.set(question, (answer) => resolve(answer as Answer));
    this.#counts.set(source, count + 1);
    const late = setTimeout(
      () => resolve(failed(`the server did not reply within ${RULE_ANSWER_MS} ms`)),
      RULE_ANSWER_MS,
    );
    try {
      this.send(message(question));
      return await promise;
    } finally {
      clearTimeout(late);
      this.#pending.delete(question);
      const left = (this.#counts.get(source) ?? 1) - 1;
      if (left === 0) this.#counts.delete(source);
      else this.#counts.set(source, left);
    }
  }
}
