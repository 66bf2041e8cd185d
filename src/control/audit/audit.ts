/**
 * The audit log: who changed what, from where, with which result. Changes of access (keys, teams, users) are recorded
 * in the transaction that makes them. All other changes, and rejected ones, are written in batches, so that no request
 * waits for them; a crash of the server loses at most those of the last second.
 *
 * Clients without valid credentials cannot fill it: of their requests only failed logins are recorded, at a limited
 * rate and apart from the rest.
 */
import type { Timer } from "../../base/clock.ts";
import { described, masked } from "../../base/log.ts";
import { scaled } from "../../base/time-factor.ts";
import { TokenBucket } from "../../base/token-bucket.ts";
import type { AuditEntry } from "../../store/audit-log.ts";
import type { Tables } from "../../store/store.ts";
import type { Parts } from "../parts.ts";

export const AUDIT_WRITTEN_EVERY_MS = scaled(1_000);
/** Entries that wait to be written. Beyond these, entries are dropped, and the log has their number. */
export const AUDIT_WAITING_MAX = 20_000;
/**
 * Entries of a team: those about its keys and members, and all others. Each kind is bounded, so that a busy team pushes
 * out neither the entries of others nor those about its keys.
 */
const AUDIT_ENTRIES_PER_TEAM_MAX = 100_000;
/** Failed logins that are kept, and the burst and rate at which they are recorded. */
const FAILED_LOGINS_KEPT_MAX = 10_000;
export const FAILED_LOGINS_AT_ONCE = 100;
export const FAILED_LOGINS_PER_MINUTE = 6;
/** Surplus entries after which the oldest of a team are removed. */
const AUDIT_TRIMMED_EVERY = 1_000;
const AUDIT_SWEEP_MS = 3_600_000;
const AUDIT_SWEEP_ROWS = 500;
const AUDIT_SWEEP_STEPS = 200;
const OBJECT_MAX_CHARS = 256;
const AUDIT_DAYS_DEFAULT = 90;
const DAY_MS = 86_400_000;

export interface Actor {
  kind: AuditEntry["actor"];
  /** Id of the API key, user or admin token. */
  id: string | null;
}

/** The actor of a request without valid credentials. */
export const UNIDENTIFIED: Actor = { kind: "stranger", id: null };

/** Where a change comes from. */
export interface Origin {
  actor: Actor;
  /** Address of the client; null for a command on the machine. */
  address: string | null;
  requestId: string | null;
  /** `METHOD /path` of the endpoint, or the command. */
  action: string;
  /** Status of the response if the change succeeds. */
  status: number;
  /** Set once the change is recorded in its own transaction. */
  isRecorded?: boolean;
}

/** As far as a request shows it before its caller is known. */
export type Visit = Omit<Origin, "actor" | "isRecorded">;

/** A command of the operator. */
export function commandOrigin(command: string): Origin {
  return {
    actor: { kind: "root", id: null },
    address: null,
    requestId: null,
    action: `sandlot ${command}`,
    status: 200,
  };
}

/** What an entry is about. */
interface About {
  teamId: string | null;
  object: string | null;
  /** Status of the response. */
  status: number;
}

export interface Recording extends Pick<Parts, "clock" | "ids"> {
  /** Absent: nothing is recorded. */
  origin?: Origin | undefined;
}

/** Records a change of access in the transaction that makes it. */
export async function record(
  tables: Pick<Tables, "auditLog">,
  { clock, ids, origin }: Recording,
  about: { teamId: string | null; object: string },
): Promise<void> {
  if (origin === undefined) return;
  await tables.auditLog.add({
    id: ids.uuid(),
    at: clock.now(),
    subject: subjectOf(origin, about.teamId, ACCESS),
    ...factsOf(origin),
    ...shortened(about),
  });
  origin.isRecorded = true;
}

const ACCESS = "access";
const WORK = "work";
const FAILED_LOGINS = "failed logins";

/** A user's changes without a team are bounded apart from those of others without a team. */
function subjectOf({ actor }: Origin, teamId: string | null, otherwise: string): string {
  return teamId === null && actor.kind === "user" ? `user ${actor.id}` : otherwise;
}

export class AuditLog {
  #waiting: AuditEntry[] = [];
  #dropped = 0;
  #timer: Timer | undefined;
  #sweepTimer: Timer | undefined;
  #writing: Promise<void> = Promise.resolve();
  /** Entries since the last removal of surplus ones, by team and subject. */
  readonly #written = new Map<string, { teamId: string | null; subject: string; count: number }>();
  readonly #failedLogins: TokenBucket;
  /** Failed logins since the last one that was recorded. */
  #unrecordedLogins = 0;

  constructor(
    private readonly services: Pick<Parts, "store" | "clock" | "idleClock" | "ids" | "log" | "background">,
    private readonly days = AUDIT_DAYS_DEFAULT,
  ) {
    const flow = { burst: FAILED_LOGINS_AT_ONCE, perSecond: FAILED_LOGINS_PER_MINUTE / 60 };
    this.#failedLogins = new TokenBucket(flow, services.clock.now());
  }

  /** Removes expired entries now, and again every hour. */
  start(): void {
    const { idleClock, background } = this.services;
    background.run("old entries of the audit log could not be removed", () => this.#sweep());
    this.#sweepTimer = idleClock.after(AUDIT_SWEEP_MS, () => this.start());
  }

  /** Queues an entry for a change that was made or rejected. */
  note(origin: Origin, about: About): void {
    this.#add(origin, about, subjectOf(origin, about.teamId, WORK));
  }

  /** Queues an entry for a login that failed, if not too many did lately. The next entry has the number of others. */
  noteFailedLogin(origin: Origin, { object, status }: { object: string; status: number }): void {
    if (!this.#failedLogins.take(1, this.services.clock.now())) {
      this.#unrecordedLogins += 1;
      return;
    }
    const others = this.#unrecordedLogins === 0 ? "" : `; before it ${this.#unrecordedLogins} that are not recorded`;
    this.#unrecordedLogins = 0;
    this.#add(origin, { teamId: null, object: object + others, status }, FAILED_LOGINS);
  }

  /** Counts an entry of `record` towards the bound of its team or user. */
  noteRecorded(origin: Origin, teamId: string | null): void {
    this.#count(teamId, subjectOf(origin, teamId, ACCESS));
    this.#flushSoon();
  }

  #add(origin: Origin, about: About, subject: string): void {
    if (this.#waiting.length >= AUDIT_WAITING_MAX) {
      this.#dropped += 1;
      return;
    }
    const { ids, clock } = this.services;
    const { status } = about;
    this.#count(about.teamId, subject);
    this.#waiting.push({ id: ids.uuid(), at: clock.now(), subject, ...factsOf(origin), ...shortened(about), status });
    this.#flushSoon();
  }

  /** Writes the queued entries. If the store fails, they stay queued for the next flush. */
  async flush(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#flush());
    await this.#writing;
  }

  async close(): Promise<void> {
    this.#timer?.cancel();
    this.#sweepTimer?.cancel();
    await this.flush();
  }

  #flushSoon(): void {
    const { idleClock, background } = this.services;
    this.#timer ??= idleClock.after(AUDIT_WRITTEN_EVERY_MS, () => {
      this.#timer = undefined;
      background.run("surplus entries of the audit log could not be removed", () => this.flush());
    });
  }

  async #flush(): Promise<void> {
    const { store, log } = this.services;
    if (this.#dropped > 0) {
      log.write({ level: "error", event: "the audit log was too slow, entries were dropped", count: this.#dropped });
      this.#dropped = 0;
    }
    const batch = this.#waiting;
    this.#waiting = [];
    try {
      // A crash of the machine may lose the last moments.
      if (batch.length > 0) await store.transaction((tables) => addAll(tables, batch), "server");
    } catch (error) {
      log.write({ level: "error", event: "the audit log could not be written", error: described(error) });
      const room = AUDIT_WAITING_MAX - this.#waiting.length;
      this.#dropped += Math.max(0, batch.length - room);
      this.#waiting = [...batch.slice(0, room), ...this.#waiting];
      this.#flushSoon();
      return;
    }
    for (const group of this.#written.values()) {
      if (group.count < AUDIT_TRIMMED_EVERY) continue;
      group.count = 0;
      const most = group.subject === FAILED_LOGINS ? FAILED_LOGINS_KEPT_MAX : AUDIT_ENTRIES_PER_TEAM_MAX;
      await store.auditLog.removeBeyond(group, most);
    }
  }

  #count(teamId: string | null, subject: string): void {
    const key = `${teamId} ${subject}`;
    // The number of entries stored before this start is unknown, so the first one triggers a removal.
    const group = this.#written.get(key) ?? { teamId, subject, count: AUDIT_TRIMMED_EVERY };
    group.count += 1;
    this.#written.set(key, group);
  }

  async #sweep(): Promise<void> {
    const { store, clock } = this.services;
    const before = clock.now() - this.days * DAY_MS;
    for (let steps = 0; steps < AUDIT_SWEEP_STEPS; steps++) {
      if ((await store.auditLog.removeBefore(before, AUDIT_SWEEP_ROWS)) === 0) break;
    }
  }
}

async function addAll({ auditLog }: Tables, entries: readonly AuditEntry[]): Promise<void> {
  for (const entry of entries) await auditLog.add(entry);
}

function factsOf({ actor, address, requestId, action, status }: Origin) {
  return { actor: actor.kind, actorId: actor.id, action, address, status, requestId };
}

/** Objects have the names that clients wrote, which may be long, or a key in the wrong place. */
function shortened<A extends { object: string | null }>(about: A): A {
  return { ...about, object: about.object && masked(about.object).slice(0, OBJECT_MAX_CHARS) };
}
