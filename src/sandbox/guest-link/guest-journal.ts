/**
 * Follows the journals of sandboxes, one long response per guest, and passes on their lines. Following can stop and
 * resume at any time, because the receiver knows the last position of each log. The host reads on only after the
 * receiver has accepted the previous lines. Guests are not trusted: lines, bytes and retries are bounded, and a guest
 * that sends too much, or something that is not a journal line, is disconnected for a while.
 */
import { type Clock, systemClock, type Timer } from "../../base/clock.ts";
import { scaled } from "../../base/time-factor.ts";
import { TokenBucket } from "../../base/token-bucket.ts";
import type { LogEvent } from "../../contract/internal/host.ts";
import { CONTROL_PREFIX, CONTROL_SECRET_HEADER, SETTINGS_LOST_STATUS } from "../../contract/runtime/guest-control.ts";
import { JOURNAL_LINE_MAX_BYTES } from "../../contract/runtime/limits.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";
import type { LogLine } from "../../contract/sandbox-log.ts";
import { fetchGuest } from "./guest-request.ts";
import { readJournalLine } from "./journal-line.ts";

/** Rate limit of one journal: burst, and sustained rate. Above it, the host disconnects for a while. */
export const JOURNAL_BURST_MAX_BYTES = 1024 * 1024;
export const JOURNAL_BYTES_PER_SECOND = 32 * 1024;
/** How long the host waits for the receiver to accept lines. */
const JOURNAL_ANSWER_MS = scaled(10_000);
/** Delays before the host reconnects; they double from the first to the second. */
const JOURNAL_RETRY_MIN_MS = 100;
const JOURNAL_RETRY_MAX_MS = 5_000;
/** Shorter than any delay before a follower reconnects. */
const JOURNAL_LAST_LINES_MS = 50;
/** When many journals are resumed: so many at once, then a pause. */
export const JOURNAL_TURN = 8;
const JOURNAL_TURN_MS = 10;

const FLOW = { burst: JOURNAL_BURST_MAX_BYTES, perSecond: JOURNAL_BYTES_PER_SECOND };

interface JournalSource {
  address: string;
  secret: string;
  /** Sends the guest its settings again, when it has lost them. */
  reconfigure?: () => Promise<void>;
  /** Called when the guest's response starts. */
  settingsApplied?: () => void;
}

export class GuestJournals {
  readonly #followed = new Map<string, Follower>();
  /** Journals to resume soon. */
  readonly #soon = new Map<string, JournalSource>();
  #turn: Timer | undefined;
  #tell: ((event: LogEvent) => void) | undefined;

  constructor(
    private readonly port: number = RUNTIME_PORT,
    private readonly clock: Clock = systemClock,
  ) {}

  /** Sets the receiver. Nothing is followed before there is one. */
  onEvent(listener: (event: LogEvent) => void): void {
    this.#tell = listener;
  }

  /** Until `unfollow`, or until another source has this id. `isNew`: no line of this journal is stored yet. */
  follow(id: string, source: JournalSource, isNew = false): void {
    this.unfollow(id);
    if (this.#tell === undefined) return;
    const follower = new Follower(id, source, this.port, this.clock, (event) => this.#tell?.(event));
    this.#followed.set(id, follower);
    // The client that waits for the sandbox gets its response first.
    setImmediate(() => void follower.run(isNew));
  }

  /** A few journals at a time, so that requests are served in between. Guests buffer their lines. */
  followSoon(id: string, source: JournalSource): void {
    this.#soon.set(id, source);
    this.#turn ??= this.clock.after(JOURNAL_TURN_MS, () => this.#takeTurn());
  }

  #takeTurn(): void {
    this.#turn = undefined;
    for (const [id, source] of [...this.#soon].slice(0, JOURNAL_TURN)) this.follow(id, source);
    if (this.#soon.size > 0) this.#turn = this.clock.after(JOURNAL_TURN_MS, () => this.#takeTurn());
  }

  /** The receiver's acknowledgement of the last lines. Ignored if none is awaited. */
  acknowledge(id: string, after: string | null): void {
    this.#followed.get(id)?.answer?.resolve(after);
  }

  defer(id: string): void {
    this.#followed.get(id)?.answer?.reject(new NotAcknowledged("deferred"));
  }

  /** Disconnects at once. Idempotent. */
  unfollow(id: string): void {
    this.#soon.delete(id);
    this.#followed.get(id)?.stop();
    this.#followed.delete(id);
  }

  /** The sandbox is about to end: lines already sent are still read. */
  unfollowSoon(id: string): void {
    this.#soon.delete(id);
    const follower = this.#followed.get(id);
    if (follower === undefined) return;
    this.clock.after(JOURNAL_LAST_LINES_MS, () => {
      follower.stop();
      if (this.#followed.get(id) === follower) this.#followed.delete(id);
    });
  }

  close(): void {
    this.#turn?.cancel();
    this.#soon.clear();
    for (const id of [...this.#followed.keys()]) this.unfollow(id);
  }
}

/** Not a journal line, or too much data. */
class InvalidJournal extends Error {}

/** The receiver did not accept the lines, or following has stopped. */
class NotAcknowledged extends Error {}

class Follower {
  /** The pending acknowledgement of the receiver; undefined while none is awaited. */
  answer: PromiseWithResolvers<string | null> | undefined;
  readonly #stopping = new AbortController();
  readonly stopped = this.#stopping.signal;
  /** The delay before the next attempt, while there is one. */
  #delay: PromiseWithResolvers<void> | undefined;
  readonly #budget = new TokenBucket(FLOW, performance.now());
  #hasComplained = false;

  constructor(
    readonly id: string,
    readonly source: JournalSource,
    readonly port: number,
    readonly clock: Clock,
    readonly emit: (event: LogEvent) => void,
  ) {}

  stop(): void {
    this.#stopping.abort();
    this.answer?.reject(new NotAcknowledged("stopped"));
    this.#delay?.resolve();
  }

  async run(isNew: boolean): Promise<void> {
    let pauseMs = JOURNAL_RETRY_MIN_MS;
    for (let isFirst = true; !this.stopped.aborted; isFirst = false) {
      const startedAt = this.clock.now();
      let isFit = true;
      try {
        await this.#listen(isNew && isFirst ? null : await this.#ask({ kind: "log-waits", id: this.id }));
      } catch (thrown) {
        isFit = !(thrown instanceof InvalidJournal);
        if (thrown instanceof InvalidJournal) pauseMs = await this.#reportInvalid(thrown);
      }
      const wasUseful = isFit && this.clock.now() - startedAt > JOURNAL_RETRY_MAX_MS;
      await this.#pause(wasUseful ? JOURNAL_RETRY_MIN_MS : Math.max(pauseMs, this.#refillMs()));
      pauseMs = wasUseful ? JOURNAL_RETRY_MIN_MS : Math.min(pauseMs * 2, JOURNAL_RETRY_MAX_MS);
    }
  }

  async #listen(position: string | null): Promise<void> {
    const [journal = "", after = "0"] = (position ?? "").split(":");
    const hangUp = new AbortController();
    const from = { address: this.source.address, port: this.port };
    const response = await fetchGuest(from, `${CONTROL_PREFIX}journal?journal=${journal}&after=${after}`, {
      headers: { [CONTROL_SECRET_HEADER]: this.source.secret },
      // An idle journal is silent for any length of time.
      timeout: false,
      signal: AbortSignal.any([this.stopped, hangUp.signal]),
    });
    try {
      if (response.status === 200) this.source.settingsApplied?.();
      if (response.status === SETTINGS_LOST_STATUS) await this.source.reconfigure?.();
      if (response.status === 200 && response.body !== null) await this.#read(response.body);
    } finally {
      hangUp.abort();
    }
  }

  async #read(body: ReadableStream<Uint8Array>): Promise<void> {
    const position = { journal: "", seq: 0 };
    const decoder = new TextDecoder();
    let rest = "";
    for await (const chunk of body) {
      if (this.stopped.aborted) return;
      if (!this.#budget.charge(chunk.length, performance.now())) throw new InvalidJournal("more than is kept of a log");
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      if (rest.length > JOURNAL_LINE_MAX_BYTES) throw new InvalidJournal("a line without an end");
      const taken = lines.flatMap((line) => this.#parseLine(line, position));
      if (taken.length === 0) continue;
      const reached = `${position.journal}:${position.seq}`;
      // If the receiver defers (the log is not recorded yet, or too many lines wait), this throws, and the same lines
      // are read again later.
      const after = await this.#ask({ kind: "log", id: this.id, lines: taken, position: reached });
      if (after !== reached) return;
    }
  }

  /** Returns the position from which the receiver wants more. */
  async #ask(event: LogEvent): Promise<string | null> {
    if (this.stopped.aborted) throw new NotAcknowledged("stopped");
    const answer = Promise.withResolvers<string | null>();
    const late = this.clock.after(JOURNAL_ANSWER_MS, () => answer.reject(new NotAcknowledged("no answer in time")));
    this.answer = answer;
    try {
      this.emit(event);
      return await answer.promise;
    } finally {
      late.cancel();
      this.answer = undefined;
    }
  }

  #parseLine(text: string, position: { journal: string; seq: number }): LogLine[] {
    const now = Date.now();
    const line = text.length > JOURNAL_LINE_MAX_BYTES ? undefined : readJournalLine(text, now);
    if (line === undefined) throw new InvalidJournal("something that is not a log line");
    if (line.kind === "greeting") {
      if (position.journal !== "") throw new InvalidJournal("a second greeting");
      position.journal = line.journal;
      return [];
    }
    if (position.journal === "" || line.seq <= position.seq) throw new InvalidJournal("lines out of their order");
    position.seq = line.seq;
    return [line.kind === "entry" ? line.line : lineOfGap(line.dropped, now)];
  }

  /** The wait after a flood, until there is room again for what a working guest may have buffered. */
  #refillMs(): number {
    const now = performance.now();
    return this.#budget.level(now) >= 0 ? 0 : this.#budget.msUntil(JOURNAL_BURST_MAX_BYTES / 2, now);
  }

  /** Logged once per run of a sandbox, so that a misbehaving guest cannot fill the log. */
  async #reportInvalid(invalid: InvalidJournal): Promise<number> {
    if (!this.#hasComplained) {
      const message = `The runtime sent ${invalid.message}; parts of this log may be missing`;
      const line: LogLine = { at: Date.now(), level: "warn", message, fields: { logger: "sandbox" } };
      this.#hasComplained = await this.#ask({ kind: "log", id: this.id, lines: [line], position: null }).then(
        () => true,
        () => false,
      );
    }
    return JOURNAL_RETRY_MAX_MS;
  }

  async #pause(ms: number): Promise<void> {
    if (this.stopped.aborted) return;
    const delay = Promise.withResolvers<void>();
    const timer = this.clock.after(ms, delay.resolve);
    this.#delay = delay;
    await delay.promise;
    timer.cancel();
  }
}

function lineOfGap(dropped: number, now: number): LogLine {
  const message = `${dropped} lines were dropped: the log buffer was full`;
  return { at: now, level: "warn", message, fields: { logger: "sandbox", dropped: String(dropped) } };
}
