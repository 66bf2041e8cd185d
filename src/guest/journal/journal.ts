/**
 * Journal of events in this sandbox, for its log. It stays in memory, within bounds, until the host reads it. Noting an
 * entry takes microseconds and never waits. Callers must leave out contents: output, input, values of variables,
 * tokens.
 */
import { kernelUuid } from "../../base/kernel-random.ts";
import type { JournalEntry, JournalGap, JournalGreeting } from "../../contract/runtime/guest-control.ts";
import {
  JOURNAL_FIELD_NAME_MAX_CHARS,
  JOURNAL_FIELDS_MAX,
  JOURNAL_LINE_MAX_BYTES,
  JOURNAL_TEXT_MAX_CHARS,
} from "../../contract/runtime/limits.ts";

/** Maximum size of entries kept while the host does not listen; the oldest entries are dropped first. */
export const JOURNAL_KEPT_MAX_BYTES = 512 * 1024;
/** Time to gather entries into one piece; callers of `note` do not wait for it. */
const JOURNAL_GATHER_MS = 1;
const JOURNAL_PIECE_MAX_BYTES = 64 * 1024;

export type Fields = Record<string, string | number | undefined>;

interface Kept {
  seq: number;
  line: string;
  bytes: number;
}

interface Listener {
  /** Number of the newest entry that the host has. */
  has: number;
  wake: () => void;
  closed: boolean;
}

export class Journal {
  #name: string | undefined;
  #kept: Kept[] = [];
  #keptBytes = 0;
  #seq = 0;
  /** Entries up to this number belong to another sandbox and are never sent. */
  #begin = 0;
  #listener: Listener | undefined;
  #gathering = false;

  constructor(private readonly keptMaxBytes: number = JOURNAL_KEPT_MAX_BYTES) {}

  note(logger: string, level: JournalEntry["level"], message: string, fields: Fields = {}): void {
    const line = entryLine({
      seq: ++this.#seq,
      at: Date.now(),
      level,
      logger,
      message: cut(message),
      fields: short(fields),
    });
    const bytes = Buffer.byteLength(line);
    this.#kept.push({ seq: this.#seq, line, bytes });
    this.#keptBytes += bytes;
    let gone = 0;
    while (this.#keptBytes > this.keptMaxBytes) this.#keptBytes -= this.#kept[gone++]?.bytes ?? 0;
    if (gone > 0) this.#kept.splice(0, gone);
    this.#notifySoon();
  }

  /** Drops all entries when the sandbox is assigned or becomes a copy: they are not part of its log. */
  beginAnew(): void {
    this.#kept = [];
    this.#keptBytes = 0;
    this.#begin = this.#seq;
    this.#name = undefined;
  }

  /** Differs after every start of the guest and in every copy. Only a listener needs it. */
  get name(): string {
    this.#name ??= kernelUuid();
    return this.#name;
  }

  /** Stream for a host that has read the journal `known` up to entry `after`. It ends when another listener arrives. */
  listen(known: string, after: number): ReadableStream<Uint8Array> {
    if (this.#listener !== undefined) close(this.#listener);
    const isKnown = known === this.name && after >= this.#begin && after <= this.#seq;
    const listener: Listener = { has: isKnown ? after : this.#begin, wake: () => undefined, closed: false };
    this.#listener = listener;
    const encoder = new TextEncoder();
    const greeting: JournalGreeting = { journal: this.name };
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => controller.enqueue(encoder.encode(`${JSON.stringify(greeting)}\n`)),
        pull: async (controller) => {
          const piece = await this.#next(listener);
          if (piece === undefined) controller.close();
          else controller.enqueue(encoder.encode(piece));
        },
        cancel: () => close(listener),
      },
      { highWaterMark: 0 },
    );
  }

  async #next(listener: Listener): Promise<string | undefined> {
    while (!listener.closed) {
      const piece = this.#pieceFor(listener);
      if (piece !== "") return piece;
      await new Promise<void>((resolve) => {
        listener.wake = resolve;
      });
    }
    return undefined;
  }

  #pieceFor(listener: Listener): string {
    listener.has = Math.max(listener.has, this.#begin);
    const first = this.#kept[0]?.seq ?? this.#seq + 1;
    let piece = "";
    if (listener.has < first - 1) {
      const gap: JournalGap = { seq: first - 1, dropped: first - 1 - listener.has };
      piece = `${JSON.stringify(gap)}\n`;
      listener.has = gap.seq;
    }
    // Entry numbers have no gaps, so the index of the next entry can be computed.
    for (let at = listener.has + 1 - first; at < this.#kept.length; at++) {
      const kept = this.#kept[at];
      if (kept === undefined || (piece !== "" && piece.length + kept.line.length > JOURNAL_PIECE_MAX_BYTES)) break;
      piece += kept.line;
      listener.has = kept.seq;
    }
    return piece;
  }

  #notifySoon(): void {
    if (this.#gathering || this.#listener === undefined || this.#listener.closed) return;
    this.#gathering = true;
    setTimeout(() => {
      this.#gathering = false;
      this.#listener?.wake();
    }, JOURNAL_GATHER_MS);
  }
}

function close(listener: Listener): void {
  listener.closed = true;
  listener.wake();
}

function entryLine(entry: JournalEntry): string {
  const line = `${JSON.stringify(entry)}\n`;
  if (Buffer.byteLength(line) <= JOURNAL_LINE_MAX_BYTES) return line;
  // Characters that take six bytes each in JSON can exceed the limit.
  return `${JSON.stringify({ ...entry, message: entry.message.slice(0, 256), fields: { shortened: "true" } })}\n`;
}

function short(fields: Fields): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(fields).slice(0, JOURNAL_FIELDS_MAX)) {
    if (value !== undefined) kept[name.slice(0, JOURNAL_FIELD_NAME_MAX_CHARS)] = cut(String(value));
  }
  return kept;
}

function cut(text: string): string {
  return text.length > JOURNAL_TEXT_MAX_CHARS ? `${text.slice(0, JOURNAL_TEXT_MAX_CHARS - 1)}…` : text;
}
