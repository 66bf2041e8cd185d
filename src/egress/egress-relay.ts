/**
 * Controls the connection relay from the server. The relay is a separate process, because sandboxes send hostile data
 * and a lot of it. When it dies, the server restarts it on the same ports and sends it all policies before it counts as
 * ready; until then connections are refused. This folder never writes firewall rules: the host redirects connections to
 * the relay.
 */
import { join } from "node:path";
import { boundedLines } from "../base/bounded-lines.ts";
import type { CountsByName } from "../base/event-counts.ts";
import { described, type Log } from "../base/log.ts";
import { writeToStdin } from "../base/program-stdin.ts";
import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import type { EgressPolicy, RuleAnswer } from "../contract/internal/host.ts";
import { ID_COUNT, RELAY_ID_FIRST } from "../system/id-range.ts";
import { openFilesMax } from "../system/open-files.ts";
import { overloaded } from "../system/overload.ts";
import { bundleProgram, spawnUnprivileged } from "../system/unprivileged-process.ts";
import { RELAY_CONNECTIONS_MAX } from "./program/bounds.ts";
import {
  type Ports,
  RELAY_MESSAGE_MAX_BYTES,
  type RelayAnswer,
  type RelayReply,
  type RelayRequest,
  type RelayStart,
  type RuleCertificate,
  type RuleRequest,
} from "./relay-messages.ts";
import { RuleCertificates } from "./rule-certificates.ts";
import { UnsentAnswers } from "./unsent-answers.ts";

/** Limit from a change of the rules until the relay applies it, including a restart of the relay. */
const RELAY_ACKNOWLEDGED_MS = scaled(30_000);
/** Delay before a restart: it doubles from the minimum to the maximum. */
const RELAY_RESTART_MIN_MS = 20;
const RELAY_RESTART_MAX_MS = 5_000;
const RELAY_START_MS = scaled(20_000);
/** Interval and number of checks for a reply. */
const RELAY_REPLY_CHECK_MS = scaled(1_000);
export const RELAY_REPLY_CHECKS_MAX = 10;
const RELAY_ERROR_MAX_CHARS = 2000;
/**
 * Memory limit of the relay's process. Address space that Bun reserves for compiled code counts, and on x64 that is a
 * GiB more: with less, Bun runs without compiled code and calls no function of the C library.
 */
const RELAY_DATA_MAX_BYTES = (process.arch === "x64" ? 3 : 2) * 1024 ** 3;

const PROGRAM = join(import.meta.dir, "program/main.ts");
/** Two sockets and a DNS query per connection. */
const FILES_PER_CONNECTION = 3;
const FILES_OTHER = 256;

interface RelayOptions {
  /** The address on which the relay listens and of the DNS relay that it queries. */
  gateway: string;
  /** Holds the relay's program; must be accessible to every user. */
  folder: string;
  /** The ranges that are currently closed to every sandbox. */
  closed: () => readonly string[];
  /** Receives the reason why connections of the sandbox with this address fail. */
  onTrouble?: (source: string, message: string) => void;
  /** Receives the outcomes of connections, at intervals. */
  onDecisions?: (decisions: CountsByName) => void;
  /** Absent: names with header rules are not relayed. */
  rules?: RuleOptions;
  log: Log;
  /** Interval between checks for a reply. */
  checkMs?: number;
}

interface RuleOptions {
  /** The key of all certificates of `certificateFor`, in PEM. */
  leafKeyPem: string;
  certificateFor(name: string): Promise<string>;
  /** Authorities that may certify sites, in PEM; null: those that the runtime brings. */
  roots: string | null;
  /** A request needs the headers of its rule: reply with `answerRule`. */
  onRuleRequest(asked: RuleRequest): void;
}

interface PendingRequest {
  request: RelayRequest;
  done: PromiseWithResolvers<void>;
}

type Child = ReturnType<typeof spawnRelay>;
type RelayCommand = RelayRequest extends infer R ? (R extends { id: number } ? Omit<R, "id"> : never) : never;

export class EgressRelay {
  readonly uid: number;
  readonly #policies = new Map<string, EgressPolicy>();
  readonly #pending = new Map<number, PendingRequest>();
  readonly #certificates: RuleCertificates | undefined;
  #ports: Ports = { http: 0, tls: 0, proxied: 0 };
  #child: Child | undefined;
  #isReady = false;
  #isClosed = false;
  #lastId = 0;
  /** For the current child. */
  #unsent = new UnsentAnswers();
  /** The end of the relay's stderr. */
  #lastErrors = "";
  #fails = 0;

  private constructor(
    private readonly options: RelayOptions,
    private readonly program: string,
  ) {
    this.uid = relayId(options.gateway);
    this.#certificates = options.rules && new RuleCertificates(options.rules);
  }

  static async open(options: RelayOptions): Promise<EgressRelay> {
    const relay = new EgressRelay(options, await bundleProgram(PROGRAM, options.folder, "relay"));
    await relay.#start();
    return relay;
  }

  /** Ports on the gateway's address. A restart keeps them. */
  get ports(): Ports {
    return this.#ports;
  }

  /**
   * Resolves when the relay applies the policy and has closed the connections that it forbids. Connections that the
   * firewall allows by address do not pass the relay. Null: forgets the sandbox and closes all its connections.
   */
  async set(source: string, policy: EgressPolicy | null): Promise<void> {
    if (policy === null) this.#policies.delete(source);
    else this.#policies.set(source, policy);
    try {
      await inTime(this.#request({ do: "set", source, policy }));
    } finally {
      // Nothing of the sandbox asks for certificates any more.
      if (policy === null) this.#certificates?.forget(source);
    }
  }

  async setClosed(ranges: readonly string[]): Promise<void> {
    await inTime(this.#request({ do: "close-ranges", ranges }));
  }

  /** Replies to `onRuleRequest`. An unknown question is success: the request has ended, or the relay has. */
  answerRule(question: string, answer: RuleAnswer): void {
    const [source = "", asked = ""] = question.split(" ");
    this.#answer(source, asked, answer);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#child?.kill("SIGKILL");
    await this.#child?.exited;
    for (const { done } of this.#pending.values()) done.resolve();
    this.#pending.clear();
  }

  async #request(order: RelayCommand): Promise<void> {
    if (this.#isClosed) return;
    const id = ++this.#lastId;
    const pending: PendingRequest = { request: { id, ...order }, done: Promise.withResolvers() };
    this.#pending.set(id, pending);
    // A starting relay gets all policies, this one included.
    if (this.#isReady) this.#send(pending.request);
    await pending.done.promise;
  }

  #answer(source: string, question: string, answer: RuleAnswer | RuleCertificate): void {
    // Not kept for the next relay, which has other questions.
    if (!this.#isReady) return;
    const message: RelayAnswer = { do: "answer", question, answer };
    const line = `${JSON.stringify(message)}\n`;
    const unsent = this.#unsent;
    if (line.length > RELAY_MESSAGE_MAX_BYTES) this.#refuse(question, "the headers of the rule are too large");
    else if (!unsent.take(source, line.length))
      this.#refuse(question, "too many headers are on their way to the relay");
    else void this.#write(line).finally(() => unsent.free(source, line.length));
  }

  #refuse(question: string, failure: string): void {
    const message: RelayAnswer = { do: "answer", question, answer: { failure } };
    void this.#write(`${JSON.stringify(message)}\n`);
  }

  async #certify(question: string, source: string, host: string): Promise<void> {
    this.#answer(
      source,
      question,
      (await this.#certificates?.get(source, host)) ?? { failure: "this server has no authority" },
    );
  }

  #send(message: unknown): void {
    const child = this.#child;
    const line = `${JSON.stringify(message)}\n`;
    if (line.length > RELAY_MESSAGE_MAX_BYTES) throw new Error(`a message for the relay has ${line.length} bytes`);
    void this.#write(line);
    if (child !== undefined) this.#watch(child);
  }

  /** Resolves when the pipe has taken it. If the relay is ending, its successor gets all policies again. */
  async #write(line: string): Promise<void> {
    if (this.#child !== undefined) await writeToStdin(this.#child.stdin, line).catch(() => undefined);
  }

  /**
   * Kills a relay that stops replying. This counts checks instead of time: while the server's thread is busy, a reply
   * may already wait to be read, and it is read between two checks.
   */
  #watch(child: Child): void {
    const newest = this.#lastId;
    let checks = 0;
    const timer = setInterval(() => {
      // The first key is the oldest. Scanning all is too slow: there may be a request, and a check, for each sandbox.
      const [oldest = Number.POSITIVE_INFINITY] = this.#pending.keys();
      const isOverdue = child === this.#child && this.#isReady && oldest <= newest;
      if (isOverdue && ++checks < RELAY_REPLY_CHECKS_MAX) return;
      clearInterval(timer);
      if (isOverdue) child.kill("SIGKILL");
    }, this.options.checkMs ?? RELAY_REPLY_CHECK_MS);
    timer.unref();
  }

  /** Resolves when a new process has acknowledged all policies. */
  async #start(): Promise<void> {
    const child = spawnRelay(this.program, this.uid);
    this.#child = child;
    this.#unsent = new UnsentAnswers();
    this.#isReady = false;
    const errors = this.#logErrors(child);
    const late = setTimeout(() => child.kill("SIGKILL"), RELAY_START_MS);
    const replies = boundedLines(child.stdout, RELAY_MESSAGE_MAX_BYTES);
    try {
      this.#send(this.#startMessage);
      const first = JSON.parse((await replies.next()).value ?? "{}") as RelayReply;
      if (!("ready" in first)) throw new Error("it ended before it was ready");
      this.#ports = first.ready;
    } catch (cause) {
      child.kill("SIGKILL");
      await errors;
      throw new Fault(500, `the connection relay does not start, and says:${this.#lastErrors}`, { cause });
    } finally {
      clearTimeout(late);
    }
    void this.#listen(child, replies);
    this.#isReady = true;
    this.#fails = 0;
    await this.#sendAll();
  }

  get #startMessage(): RelayStart {
    const { gateway, rules } = this.options;
    return {
      address: gateway,
      ports: this.#ports,
      connectionsMax: relayConnectionsMax(),
      rules: rules === undefined ? null : { leafKeyPem: rules.leafKeyPem, roots: rules.roots },
    };
  }

  /** Sends all policies. They include those of waiting requests, which resolve once the relay has acknowledged all. */
  async #sendAll(): Promise<void> {
    const waiting = [...this.#pending.values()];
    await Promise.all([
      this.#request({ do: "close-ranges", ranges: this.options.closed() }),
      ...[...this.#policies].map(([source, policy]) => this.#request({ do: "set", source, policy })),
    ]);
    for (const { request, done } of waiting) {
      this.#pending.delete(request.id);
      done.resolve();
    }
  }

  async #listen(child: Child, replies: AsyncGenerator<string>): Promise<void> {
    try {
      for await (const line of replies) {
        const reply = JSON.parse(line) as RelayReply;
        if ("trouble" in reply) {
          const { source, trouble } = reply;
          this.options.onTrouble?.(String(source), String(trouble).slice(0, RELAY_ERROR_MAX_CHARS));
        }
        if ("decisions" in reply) this.options.onDecisions?.(reply.decisions);
        if ("asked" in reply) {
          const { asked } = reply;
          // The answer counts as one of this sandbox.
          this.options.rules?.onRuleRequest({ ...asked, question: `${asked.source} ${asked.question}` });
        }
        if ("certify" in reply) {
          const { question, source, host } = reply.certify;
          void this.#certify(String(question), String(source), String(host));
        }
        if (!("done" in reply)) continue;
        const pending = this.#pending.get(reply.done);
        this.#pending.delete(reply.done);
        pending?.done.resolve();
      }
    } catch (thrown) {
      this.options.log.write({ level: "error", event: "the relay sent an invalid reply", error: described(thrown) });
    }
    child.kill("SIGKILL");
    await child.exited;
    this.#isReady = false;
    if (this.#isClosed) return;
    const how = `${child.signalCode ?? `exit code ${child.exitCode}`}`;
    this.options.log.write({ level: "error", event: "the connection relay ended and is being restarted", how });
    await this.#startAgain();
  }

  async #startAgain(): Promise<void> {
    while (!this.#isClosed) {
      try {
        return await this.#start();
      } catch (thrown) {
        this.#fails += 1;
        const error = described(thrown);
        this.options.log.write({ level: "error", event: "the connection relay could not be started", error });
        await Bun.sleep(Math.min(RELAY_RESTART_MAX_MS, RELAY_RESTART_MIN_MS * 2 ** Math.min(this.#fails, 16)));
      }
    }
  }

  async #logErrors(child: Child): Promise<void> {
    try {
      for await (const line of boundedLines(child.stderr, RELAY_MESSAGE_MAX_BYTES)) {
        if (line === "") continue;
        const error = line.slice(0, RELAY_ERROR_MAX_CHARS);
        this.#lastErrors = `${this.#lastErrors} ${error}`.slice(-RELAY_ERROR_MAX_CHARS);
        this.options.log.write({ level: "error", event: "the connection relay reported an error", error });
      }
    } catch {
      // The relay has ended.
    }
  }
}

function relayConnectionsMax(): number {
  return Math.min(RELAY_CONNECTIONS_MAX, Math.floor((openFilesMax() - FILES_OTHER) / FILES_PER_CONNECTION));
}

function spawnRelay(program: string, uid: number) {
  const files = Math.min(openFilesMax(), RELAY_CONNECTIONS_MAX * FILES_PER_CONNECTION + FILES_OTHER);
  return spawnUnprivileged({ program, uid, files, dataBytes: RELAY_DATA_MAX_BYTES });
}

/** Rejects late requests. The relay still gets them as soon as it can, but the caller waits no longer. */
async function inTime(reply: Promise<void>): Promise<void> {
  const late = Promise.withResolvers<never>();
  const message = `the connection relay did not reply within ${RELAY_ACKNOWLEDGED_MS} ms`;
  const timer = setTimeout(() => late.reject(overloaded(message)), RELAY_ACKNOWLEDGED_MS);
  try {
    await Promise.race([reply, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** A different user id for each server on the host, so that one server's relay cannot signal another's. */
function relayId(gateway: string): number {
  const [, second = 0, third = 0] = gateway.split(".").map(Number);
  return RELAY_ID_FIRST + ((second * 256 + third) % ID_COUNT);
}
