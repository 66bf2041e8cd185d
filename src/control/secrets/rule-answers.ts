/**
 * Answers the host's questions for the headers of requests with a rule. Values are read for each answer and kept
 * nowhere, so a new version of a secret applies to the next request. Questions of one sandbox that arrive while an
 * answer is being prepared are answered together by one later read, so a program that makes thousands of requests costs
 * one read at a time.
 */
import { described } from "../../base/log.ts";
import { Semaphore } from "../../base/semaphore.ts";
import { Fault } from "../../contract/fault.ts";
import { type HeaderPart, headerParts } from "../../contract/header-placeholders.ts";
import type { HostEvent, RuleAnswer } from "../../contract/internal/host.ts";
import { type HeaderRule, isHeaderText, partsOf } from "../../contract/management/header-rules.ts";
import { quoted } from "../../contract/quoted-text.ts";
import type { Sandbox } from "../../store/sandboxes.ts";
import type { SealedValue } from "../../store/secrets.ts";
import { TokenBuckets } from "../budgets/token-buckets.ts";
import type { Parts } from "../parts.ts";
import type { IdentityIssuer } from "./identity-issuer.ts";
import type { SecretUses } from "./secret-uses.ts";
import { aboutValue, type SecretsKeys } from "./secrets-keys.ts";

/** Requests of one sandbox that wait for their headers; further ones fail. */
export const RULE_QUESTIONS_WAITING_MAX = 1_024;
/** Sandboxes whose questions are answered at the same time. They take turns. */
const RULE_SANDBOXES_AT_ONCE = 8;
/** Names and values of all headers of one request. */
export const RULE_ANSWER_MAX_BYTES = 64 * 1024;
/** The host may ask before the row has the rule: a create or a change is being recorded. */
const RULE_RETRY_MS = 100;
const RULE_RETRIES_MAX = 50;
/** Lines in the log of one sandbox about requests that failed. */
const FAILURE_LINES = { burst: 10, perSecond: 1 / 60 };

interface Question {
  question: string;
  pattern: string;
  host: string;
  retries: number;
}

interface RuleServices extends Pick<Parts, "store" | "host" | "clock" | "log" | "background"> {
  keys: SecretsKeys;
  identity: IdentityIssuer;
  uses: SecretUses;
  /** Adds a line to the log of a sandbox. */
  warn(sandbox: Sandbox, message: string): void;
}

/** Headers with their values, and the secrets in them. */
interface Resolved {
  headers: [name: string, value: string][];
  used: readonly SealedValue[];
}

export class RuleAnswers {
  readonly #waiting = new Map<string, Question[]>();
  readonly #working = new Set<string>();
  readonly #turns = new Semaphore(RULE_SANDBOXES_AT_ONCE);
  readonly #lines = new TokenBuckets();
  #closed = false;

  constructor(private readonly services: RuleServices) {}

  /** Never waits. */
  onHostEvent(event: HostEvent): void {
    if (event.kind !== "rule-requested") return;
    const { id, question, pattern, host } = event;
    this.#add(id, { question, pattern, host, retries: 0 });
  }

  /** Waits for no rule any more. */
  close(): void {
    this.#closed = true;
  }

  #add(id: string, asked: Question): void {
    const waiting = this.#waiting.get(id) ?? [];
    if (waiting.length >= RULE_QUESTIONS_WAITING_MAX) {
      const failure = `too many requests of this sandbox wait for the headers of ${ruleOf(asked)}; try again`;
      this.#answer(asked, { failure });
      return;
    }
    waiting.push(asked);
    this.#waiting.set(id, waiting);
    if (this.#working.has(id)) return;
    this.#working.add(id);
    this.services.background.run("questions for header rules were not answered", () => this.#work(id));
  }

  async #work(id: string): Promise<void> {
    try {
      while (this.#waiting.has(id)) {
        using _turn = await this.#turns.acquire(id);
        const batch = this.#waiting.get(id) ?? [];
        this.#waiting.delete(id);
        await this.#answerAll(id, batch);
      }
    } finally {
      this.#working.delete(id);
    }
  }

  /** Never throws. */
  async #answerAll(id: string, batch: readonly Question[]): Promise<void> {
    try {
      const sandbox = await this.services.store.sandboxes.byId(id);
      for (const [pattern, asked] of Map.groupBy(batch, ({ pattern }) => pattern)) {
        const rules = rulesFor(sandbox, pattern);
        if (sandbox !== undefined && rules !== undefined) await this.#answerRule(sandbox, rules, asked);
        else this.#retry(id, sandbox, asked);
      }
    } catch (error) {
      this.services.log.write({ level: "error", event: "header rules not read", sandbox: id, error: described(error) });
      for (const asked of batch) {
        this.#answer(asked, { failure: `${ruleOf(asked)} could not be read; try again` });
      }
    }
  }

  async #answerRule(sandbox: Sandbox, rules: readonly HeaderRule[], asked: readonly Question[]): Promise<void> {
    const [{ pattern } = { pattern: "" }] = asked;
    let resolved: Resolved;
    try {
      resolved = await this.#resolve(sandbox, rules);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      const failure = `${ruleOf({ pattern })} cannot be applied: ${error.message}`;
      if (error.status >= 500) {
        const event = "header rule cannot be applied";
        this.services.log.write({ level: "error", event, sandbox: sandbox.id, error: described(error) });
      }
      const now = this.services.clock.now();
      if (this.#lines.of(sandbox.id, FAILURE_LINES, now).take(1, now)) this.services.warn(sandbox, failure);
      for (const each of asked) this.#answer(each, { failure });
      return;
    }
    const { headers, used } = resolved;
    for (const { question, host } of asked) {
      for (const { secretId, version } of used) {
        this.services.uses.note({ secretId, version, sandboxId: sandbox.id, host, pattern });
      }
      this.#answer({ question }, { headers });
    }
  }

  /** A Fault says what is missing. */
  async #resolve(sandbox: Sandbox, rules: readonly HeaderRule[]): Promise<Resolved> {
    const parts = partsOf(rules);
    const names = new Set(parts.flatMap((part) => ("secret" in part ? [part.secret.toLowerCase()] : [])));
    const used = names.size === 0 ? [] : await this.services.store.secrets.valuesOf(sandbox.teamId, [...names]);
    const missing = names
      .difference(new Set(used.map(({ name }) => name)))
      .values()
      .next();
    if (!missing.done) throw new Fault(404, `the team has no secret ${quoted(missing.value)}`);
    const values = new Map(used.map((value) => [value.name, this.services.keys.open(aboutValue(value), value)]));
    const tokens = await this.#tokens(sandbox, new Set(parts.flatMap((part) => ("token" in part ? [part.token] : []))));
    const fill = (part: HeaderPart): string | undefined => {
      if ("text" in part) return part.text;
      return "secret" in part ? values.get(part.secret.toLowerCase()) : tokens.get(part.token);
    };
    return { headers: headersFrom(rules, fill), used };
  }

  async #tokens(sandbox: Sandbox, names: ReadonlySet<string>): Promise<Map<string, string>> {
    const tokens = new Map<string, string>();
    for (const name of names) {
      const defined = Object.hasOwn(sandbox.identityTokens, name) ? sandbox.identityTokens[name] : undefined;
      if (defined === undefined) throw new Fault(404, `the sandbox has no identity token ${quoted(name)}`);
      tokens.set(name, await this.services.identity.token(sandbox, defined.audience));
    }
    return tokens;
  }

  #retry(id: string, sandbox: Sandbox | undefined, asked: readonly Question[]): void {
    const mayChange = !this.#closed && (sandbox === undefined || sandbox.egressUnsettled);
    for (const each of asked) {
      if (!mayChange || each.retries >= RULE_RETRIES_MAX) {
        this.#answer(each, { failure: `there is no ${ruleOf(each)} any more` });
        continue;
      }
      this.services.clock.after(RULE_RETRY_MS, () => this.#add(id, { ...each, retries: each.retries + 1 }));
    }
  }

  /** If the answer does not arrive, the host ends the request on its own. */
  #answer({ question }: Pick<Question, "question">, answer: RuleAnswer): void {
    void this.services.host.answerRule(question, answer).catch(() => undefined);
  }
}

function ruleOf({ pattern }: Pick<Question, "pattern">): string {
  return `rule for ${quoted(pattern)}`;
}

function rulesFor(sandbox: Sandbox | undefined, pattern: string): readonly HeaderRule[] | undefined {
  const rules = sandbox?.network.rules;
  return rules !== undefined && Object.hasOwn(rules, pattern) ? rules[pattern] : undefined;
}

/** The headers with their values filled in. A Fault names a header that cannot be sent. */
function headersFrom(rules: readonly HeaderRule[], fill: (part: HeaderPart) => string | undefined) {
  const headers: [name: string, value: string][] = [];
  let bytes = 0;
  for (const [name, template] of rules.flatMap(({ transform }) => Object.entries(transform?.headers ?? {}))) {
    const filled = (headerParts(template) ?? []).map(fill).join("");
    bytes += Buffer.byteLength(name) + Buffer.byteLength(filled);
    if (bytes > RULE_ANSWER_MAX_BYTES)
      throw new Fault(422, `its headers have more than ${RULE_ANSWER_MAX_BYTES} bytes`);
    if (!isHeaderText(filled)) {
      const holds = "holds a line break or another character that no header may";
      throw new Fault(422, `the value of its header ${quoted(name)} ${holds}`);
    }
    headers.push([name, withoutMargins(filled)]);
  }
  return headers;
}

/** HTTP does not count spaces and tabs around a value as part of it. No expression, which long runs would slow down. */
function withoutMargins(value: string): string {
  const isMargin = (at: number) => value[at] === " " || value[at] === "\t";
  let [start, end] = [0, value.length];
  while (start < end && isMargin(start)) start++;
  while (end > start && isMargin(end - 1)) end--;
  return value.slice(start, end);
}
