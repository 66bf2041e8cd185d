/**
 * Logs of sandboxes: lines wait in memory for a moment, then go to the store in pages. Times within one log only rise
 * from page to page, whatever a guest claims, so a reader that asks for lines later than its last one misses nothing.
 */
import type { Timer } from "../../base/clock.ts";
import { SerialQueue } from "../../base/serial-queue.ts";
import { Fault } from "../../contract/fault.ts";
import { LOG_LEVELS, type LogLevel, type LogLine } from "../../contract/sandbox-log.ts";
import type { LogPage } from "../../store/sandbox-logs.ts";
import { TokenBuckets } from "../budgets/token-buckets.ts";
import { ACTIVITY_STORE_RETRY_MS, LOG_LINES_PER_SANDBOX_MAX } from "../limits.ts";
import type { Parts } from "../parts.ts";

/** Beyond this size of a log the oldest lines are removed. */
export const LOG_BYTES_PER_SANDBOX_MAX = 8 * 1024 * 1024;
/** Lines are written together with those of the next few milliseconds. */
const LOG_FLUSH_MS = 100;
/** Lines of one sandbox that wait for the store. More are dropped, and a line says how many. */
export const LOG_WAITING_MAX_LINES = 5_000;
const LOG_WAITING_MAX_BYTES = 2 * 1024 * 1024;
/** Sandboxes whose lines are written in one transaction. */
const LOG_PAGES_PER_WRITE = 32;
/** Sandboxes whose log state stays in memory. For others it is read from the store again. */
const LOG_SANDBOXES_KNOWN_MAX = 10_000;
const LOG_PAGES_PER_READ = 64;
/** Log bytes of all guests of one team, burst and rate, so that one noisy team does not block the store for others. */
export const LOG_TEAM_BURST_MAX_BYTES = 16 * 1024 * 1024;
export const LOG_TEAM_BYTES_PER_SECOND = 256 * 1024;
const TEAM_FLOW = { burst: LOG_TEAM_BURST_MAX_BYTES, perSecond: LOG_TEAM_BYTES_PER_SECOND };

interface LogQuery {
  teamId: string;
  sandboxId: string;
  /** Both inclusive. */
  from: number;
  to: number;
  newestFirst: boolean;
  limit: number;
  level?: LogLevel | undefined;
  search?: string | undefined;
}

/** In-memory state of one log. */
interface Known {
  teamId: string;
  waiting: LogLine[];
  waitingBytes: number;
  dropped: number;
  /** Undefined until it is read from the store. */
  position?: { is: string | undefined };
  extent?: { lines: number; bytes: number; lastAt: number } | undefined;
  hasEnded: boolean;
}

const REMOVALS_PER_WRITE = 32;

export class SandboxLogs {
  readonly #known = new Map<string, Known>();
  readonly #dirty = new Set<string>();
  readonly #budgets = new TokenBuckets();
  #closed = false;
  #timer: Timer | undefined;
  readonly #writing = new SerialQueue();

  constructor(private readonly services: Parts) {}

  /** Adds a line that does not come from the guest. Never waits, never throws. */
  append(
    sandbox: { id: string; teamId: string },
    level: LogLevel,
    message: string,
    fields: Record<string, string>,
  ): void {
    const known = this.#knownFor(sandbox.id, sandbox.teamId);
    this.#add(sandbox.id, known, [{ at: this.services.clock.now(), level, message, fields }]);
  }

  /** The guest is gone. Its last lines may still arrive. */
  noteEnd(sandboxId: string): void {
    const known = this.#known.get(sandboxId);
    if (known !== undefined) known.hasEnded = true;
  }

  /** The newest position taken from a sandbox's log, including before a restart of the server. */
  async positionOf(sandboxId: string): Promise<string | undefined> {
    const { store } = this.services;
    let known = this.#known.get(sandboxId);
    if (known === undefined) {
      const sandbox = await store.sandboxes.byId(sandboxId);
      if (sandbox === undefined) throw new Fault(404, `sandbox "${sandboxId}" is not recorded yet`);
      known = this.#knownFor(sandboxId, sandbox.teamId);
    }
    if (known.position === undefined) {
      const stored = await store.sandboxLogs.positionOf(sandboxId);
      known.position ??= { is: stored };
    }
    return known.position.is;
  }

  /**
   * Takes lines of a guest in order, and the position after them; lines of the host itself have none. Never waits.
   * False: none was taken, because too many wait or the sandbox is not known yet; the host then sends all lines after
   * `positionOf` again.
   */
  take(sandboxId: string, lines: readonly LogLine[], position: string | undefined): boolean {
    const known = this.#known.get(sandboxId);
    if (this.#closed || known === undefined || known.waiting.length >= LOG_WAITING_MAX_LINES) return false;
    const bytes = lines.reduce((sum, line) => sum + byteLength(line), 0);
    const now = this.services.clock.now();
    if (!this.#budgets.of(known.teamId, TEAM_FLOW, now).take(bytes, now)) return false;
    this.#add(sandboxId, known, lines);
    if (position !== undefined) known.position = { is: position };
    return true;
  }

  async read(query: LogQuery): Promise<LogLine[]> {
    if (this.#dirty.has(query.sandboxId)) await this.flush();
    const wanted = matcher(query);
    const found: LogLine[] = [];
    let { from, to } = query;
    while (found.length < query.limit && from <= to) {
      const { teamId, sandboxId, newestFirst } = query;
      const part = { from, to, newestFirst, limit: LOG_PAGES_PER_READ };
      const pages = await this.services.store.sandboxLogs.between(teamId, sandboxId, part);
      for (const page of pages) {
        const lines = page.filter(wanted);
        found.push(...(query.newestFirst ? lines.reverse() : lines));
      }
      const last = pages.at(-1);
      if (pages.length < LOG_PAGES_PER_READ || last === undefined) break;
      if (query.newestFirst) to = (last[0]?.at ?? from) - 1;
      else from = (last.at(-1)?.at ?? to) + 1;
    }
    return found.slice(0, query.limit);
  }

  /** Resolves when all waiting lines have been written. Throws when the store fails. */
  flush(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = undefined;
    // Lines that failed before are written with the rest.
    return this.#writing.run(() => this.#write());
  }

  /** Drops the state of ended sandboxes, and of others beyond the bound. */
  tidy(): void {
    for (const [id, known] of this.#known) {
      if (this.#dirty.has(id)) continue;
      if (known.hasEnded || this.#known.size > LOG_SANDBOXES_KNOWN_MAX) this.#known.delete(id);
    }
  }

  /** Forgets the logs of a deleted team's sandboxes, so that late lines of their guests are not written. */
  forgetTeam(teamId: string): void {
    for (const [id, known] of this.#known) if (known.teamId === teamId) this.#known.delete(id);
  }

  /** Takes no more lines from guests, which keep theirs for the next start, and writes the waiting ones. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.flush().finally(() => this.#timer?.cancel());
  }

  #knownFor(id: string, teamId: string): Known {
    const present = this.#known.get(id);
    if (present !== undefined) return present;
    const known: Known = { teamId, waiting: [], waitingBytes: 0, dropped: 0, hasEnded: false };
    this.#known.set(id, known);
    return known;
  }

  #add(id: string, known: Known, lines: readonly LogLine[]): void {
    for (const line of lines) {
      const bytes = byteLength(line);
      if (known.waiting.length >= LOG_WAITING_MAX_LINES || known.waitingBytes + bytes > LOG_WAITING_MAX_BYTES) {
        known.dropped++;
        continue;
      }
      known.waiting.push(line);
      known.waitingBytes += bytes;
    }
    this.#dirty.add(id);
    this.#arm(LOG_FLUSH_MS);
  }

  #arm(delayMs: number): void {
    this.#timer ??= this.services.idleClock.after(delayMs, () => {
      this.#timer = undefined;
      this.services.background.run("logs not written", () => this.flush());
    });
  }

  async #write(): Promise<void> {
    while (this.#dirty.size > 0) {
      const ids = [...this.#dirty].slice(0, LOG_PAGES_PER_WRITE);
      for (const id of ids) this.#dirty.delete(id);
      try {
        await this.#writePages(ids);
      } catch (error) {
        for (const id of ids) {
          this.#dirty.add(id);
          // It is unknown whether the write succeeded, so the extent is read again before the next write.
          const known = this.#known.get(id);
          if (known !== undefined) known.extent = undefined;
        }
        this.#arm(ACTIVITY_STORE_RETRY_MS);
        throw error;
      }
    }
  }

  async #writePages(ids: readonly string[]): Promise<void> {
    const { store } = this.services;
    const pages: { id: string; known: Known; page: LogPage; taken: number }[] = [];
    for (const id of ids) {
      const known = this.#known.get(id);
      if (known === undefined || known.waiting.length === 0) continue;
      known.extent ??= await store.sandboxLogs.extentOf(id);
      pages.push({ id, known, ...pageOf(id, known, known.extent.lastAt, this.services.clock.now()) });
    }
    await store.transaction(async (tables) => {
      for (const { page } of pages) await tables.sandboxLogs.add(page);
    }, "server");
    for (const { id, known, page, taken } of pages) {
      known.waiting.splice(0, taken);
      known.waitingBytes = known.waiting.reduce((sum, line) => sum + byteLength(line), 0);
      if (known.waiting.length > 0) this.#dirty.add(id);
      if (known.extent === undefined) continue;
      known.extent.lines += page.lines.length;
      known.extent.bytes += page.bytes;
      known.extent.lastAt = page.lines.at(-1)?.at ?? known.extent.lastAt;
    }
    // After the counters are updated, because this may fail.
    for (const { id, known } of pages) if (known.extent !== undefined) await this.#removeSurplus(id, known.extent);
  }

  async #removeSurplus(id: string, extent: { lines: number; bytes: number }): Promise<void> {
    for (let removals = 0; removals < REMOVALS_PER_WRITE; removals++) {
      if (extent.lines <= LOG_LINES_PER_SANDBOX_MAX && extent.bytes <= LOG_BYTES_PER_SANDBOX_MAX) return;
      const gone = await this.services.store.sandboxLogs.removeOldest(id);
      if (gone === undefined) return;
      extent.lines -= gone.lines;
      extent.bytes -= gone.bytes;
    }
  }
}

/** All waiting lines, sorted by time and later than the stored ones. */
function pageOf(sandboxId: string, known: Known, lastAt: number, now: number): { page: LogPage; taken: number } {
  const taken = known.waiting.length;
  const waiting = [...known.waiting];
  if (known.dropped > 0) {
    const message = `${known.dropped} lines were dropped: they arrived faster than the store accepts`;
    waiting.push({ at: now, level: "warn", message, fields: { logger: "sandbox", dropped: String(known.dropped) } });
    known.dropped = 0;
  }
  let earliest = lastAt + 1;
  const lines = waiting
    .toSorted((a, b) => a.at - b.at)
    .map((line) => {
      earliest = Math.max(earliest, line.at);
      return { ...line, at: earliest };
    });
  const bytes = lines.reduce((sum, line) => sum + byteLength(line), 0);
  return { page: { sandboxId, teamId: known.teamId, lines, bytes, position: known.position?.is ?? "" }, taken };
}

function byteLength(line: LogLine): number {
  return Buffer.byteLength(JSON.stringify(line));
}

function matcher({ from, to, level, search }: LogQuery): (line: LogLine) => boolean {
  const lowest = level === undefined ? 0 : LOG_LEVELS.indexOf(level);
  return (line) =>
    line.at >= from &&
    line.at <= to &&
    LOG_LEVELS.indexOf(line.level) >= lowest &&
    (search === undefined || line.message.includes(search));
}
