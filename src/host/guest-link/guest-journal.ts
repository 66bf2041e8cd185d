/**
 * Listens to the journals of sandboxes, one long answer of each guest, and hands on what they tell. It can be left and taken up
 * again at any time, because the reader knows where a log ended. A guest is not trusted: lines, bytes and tries are bounded,
 * and one that sends too much, or anything else than lines of a journal, is hung up on for a while.
 */

import { CONTROL_PREFIX, CONTROL_SECRET_HEADER, SETTINGS_LOST_STATUS } from "../../contract/runtime/guest-control.ts";
import { JOURNAL_LINE_MAX_BYTES } from "../../contract/runtime/limits.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";
import type { LogLine } from "../../contract/sandbox-log.ts";
import { TokenBucket } from "../../work/token-bucket.ts";
import type { LogReader } from "../host.ts";
import {
  JOURNAL_BURST_MAX_BYTES,
  JOURNAL_BYTES_PER_SECOND,
  JOURNAL_RETRY_MAX_MS,
  JOURNAL_RETRY_MIN_MS,
} from "../limits.ts";
import { readJournalLine } from "./journal-line.ts";

/** Shorter than any pause before a follower listens again. */
const LAST_WORDS_MS = 50;
const FLOW = { burst: JOURNAL_BURST_MAX_BYTES, perSecond: JOURNAL_BYTES_PER_SECOND };

interface JournalSource {
  address: string;
  secret: string;
  /** Tells the guest its settings again, when it has lost them. */
  reconfigure?: () => Promise<void>;
}

export class GuestJournals {
  readonly #followed = new Map<string, AbortController>();
  readonly #port: number;
  #reader: LogReader | undefined;

  constructor(port = RUNTIME_PORT) {
    this.#port = port;
  }

  /** Nothing is listened to before there is somebody to tell. */
  tell(reader: LogReader): void {
    this.#reader = reader;
  }

  /** Listens until `leave`. Of one that is followed already, from now on there. Of a new one the reader has nothing yet. */
  follow(id: string, source: JournalSource, isNew = false): void {
    this.leave(id);
    const reader = this.#reader;
    if (reader === undefined) return;
    const left = new AbortController();
    this.#followed.set(id, left);
    void new Follower(id, source, this.#port, reader, left.signal).run(isNew);
  }

  /** Hangs up at once. Idempotent. */
  leave(id: string): void {
    this.#followed.get(id)?.abort();
    this.#followed.delete(id);
  }

  /** The sandbox is about to end: what it has said already is still heard. */
  leaveSoon(id: string): void {
    const left = this.#followed.get(id);
    this.#followed.delete(id);
    if (left !== undefined) setTimeout(() => left.abort(), LAST_WORDS_MS).unref();
  }

  close(): void {
    for (const id of [...this.#followed.keys()]) this.leave(id);
  }
}

/** Not a line of a journal, or more than may come. */
class Unfit extends Error {}

class Follower {
  readonly #budget = new TokenBucket(FLOW, performance.now());
  #hasComplained = false;

  constructor(
    readonly id: string,
    readonly source: JournalSource,
    readonly port: number,
    readonly reader: LogReader,
    readonly left: AbortSignal,
  ) {}

  async run(isNew: boolean): Promise<void> {
    let pauseMs = JOURNAL_RETRY_MIN_MS;
    for (let isFirst = true; !this.left.aborted; isFirst = false) {
      const startedAt = performance.now();
      let isFit = true;
      try {
        await this.#listen(isNew && isFirst ? undefined : await this.reader.positionOf(this.id));
      } catch (thrown) {
        isFit = !(thrown instanceof Unfit);
        if (thrown instanceof Unfit) pauseMs = this.#complain(thrown);
      }
      const wasUseful = isFit && performance.now() - startedAt > JOURNAL_RETRY_MAX_MS;
      await this.#pause(wasUseful ? JOURNAL_RETRY_MIN_MS : Math.max(pauseMs, this.#refillMs()));
      pauseMs = wasUseful ? JOURNAL_RETRY_MIN_MS : Math.min(pauseMs * 2, JOURNAL_RETRY_MAX_MS);
    }
  }

  async #listen(position: string | undefined): Promise<void> {
    const [journal = "", after = "0"] = (position ?? "").split(":");
    const hangUp = new AbortController();
    const response = await fetch(
      `http://${this.source.address}:${this.port}${CONTROL_PREFIX}journal?journal=${journal}&after=${after}`,
      {
        headers: { [CONTROL_SECRET_HEADER]: this.source.secret },
        redirect: "manual",
        decompress: false,
        keepalive: false,
        // Silent while nothing happens, for as long as that is.
        timeout: false,
        signal: AbortSignal.any([this.left, hangUp.signal]),
      },
    );
    try {
      if (response.status === SETTINGS_LOST_STATUS) await this.source.reconfigure?.();
      if (response.status === 200 && response.body !== null) await this.#read(response.body);
    } finally {
      hangUp.abort();
    }
  }

  async #read(body: ReadableStream<Uint8Array>): Promise<void> {
    const hearing = { journal: "", seq: 0 };
    const decoder = new TextDecoder();
    let rest = "";
    for await (const chunk of body) {
      if (this.left.aborted) return;
      if (!this.#budget.charge(chunk.length, performance.now())) throw new Unfit("more than is kept of a log");
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      if (rest.length > JOURNAL_LINE_MAX_BYTES) throw new Unfit("a line without an end");
      const taken = lines.flatMap((line) => this.#understand(line, hearing));
      if (taken.length === 0) continue;
      // Asked again from where it was, later: it is not recorded yet, or too much waits.
      if (!this.reader.take(this.id, taken, `${hearing.journal}:${hearing.seq}`)) return;
    }
  }

  #understand(text: string, hearing: { journal: string; seq: number }): LogLine[] {
    const now = Date.now();
    const heard = text.length > JOURNAL_LINE_MAX_BYTES ? undefined : readJournalLine(text, now);
    if (heard === undefined) throw new Unfit("something that is no line of a log");
    if (heard.kind === "greeting") {
      if (hearing.journal !== "") throw new Unfit("a second greeting");
      hearing.journal = heard.journal;
      return [];
    }
    if (hearing.journal === "" || heard.seq <= hearing.seq) throw new Unfit("lines out of their order");
    hearing.seq = heard.seq;
    return [heard.kind === "entry" ? heard.line : lineOfGap(heard.dropped, now)];
  }

  /** After a flood, until there is room again for what an honest guest may have kept. */
  #refillMs(): number {
    const now = performance.now();
    return this.#budget.level(now) >= 0 ? 0 : this.#budget.msUntil(JOURNAL_BURST_MAX_BYTES / 2, now);
  }

  /** Said once for each run of a sandbox, so that a lying guest does not fill the log with it. */
  #complain(unfit: Unfit): number {
    if (!this.#hasComplained) {
      const message = `The runtime sent ${unfit.message}; parts of this log may be missing`;
      const line: LogLine = { at: Date.now(), level: "warn", message, fields: { logger: "sandbox" } };
      this.#hasComplained = this.reader.take(this.id, [line], undefined);
    }
    return JOURNAL_RETRY_MAX_MS;
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.left.aborted) return resolve();
      const end = () => {
        clearTimeout(timer);
        this.left.removeEventListener("abort", end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      timer.unref();
      this.left.addEventListener("abort", end);
    });
  }
}

function lineOfGap(dropped: number, now: number): LogLine {
  const message = `${dropped} lines were dropped: more happened than is kept while nobody reads`;
  return { at: now, level: "warn", message, fields: { logger: "sandbox", dropped: String(dropped) } };
}
