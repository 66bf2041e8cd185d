/**
 * This server's place among the servers of one database: a row with a lease that it renews. The lease runs on the
 * database's clock, so no server's clock matters. One server per database is admitted for now.
 *
 * The module src/fleet decides which server may change what. It never touches a sandbox.
 */
import type { Clock, Timer } from "../base/clock.ts";
import { described, type Log } from "../base/log.ts";
import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import type { Node } from "../store/nodes.ts";
import type { Store } from "../store/store.ts";

export const LEASE_RENEWED_EVERY_MS = scaled(2_000);
export const LEASE_MS = scaled(10_000);
/** Waits for a lease that runs out, if its holder is gone. */
const LEASE_WAITS_MAX = 2;
const RETRY_AFTER_SECONDS = 2;

/** This server. */
export type Member = Pick<Node, "identity" | "name" | "boot" | "version">;

interface Services {
  store: Pick<Store, "nodes" | "transaction" | "guard">;
  clock: Clock;
  log: Log;
  /** Milliseconds of a clock that nobody sets. */
  elapsedMs(): number;
}

interface Term {
  epoch: number;
  /** By `elapsedMs`, from before the database was asked: it lasts at least as long there. */
  endsAtMs: number;
}

export class Membership {
  #timer: Timer | undefined;
  #renewing: Promise<void> = Promise.resolve();
  #isReplaced = false;
  #isFailing = false;
  #closed = false;

  private constructor(
    private readonly services: Services,
    private readonly member: Member,
    private readonly term: Term,
  ) {}

  /**
   * Takes the place of this server's earlier run, at once after a crash. From then on the store rejects everything with
   * Fault 503 while the lease is not renewed. Fault 409: another server has this database.
   */
  static async join(services: Services, member: Member): Promise<Membership> {
    for (let waits = 0; ; waits++) {
      const startedMs = services.elapsedMs();
      const taken = await services.store.transaction((tables) => takePlace(tables, member));
      if ("epoch" in taken) {
        const membership = new Membership(services, member, { epoch: taken.epoch, endsAtMs: startedMs + LEASE_MS });
        services.store.guard(() => membership.requireLease());
        membership.#renewLater();
        return membership;
      }
      if (waits === LEASE_WAITS_MAX) throw copied(member);
      const event = "waiting for the lease of this server's run before the machine was restarted";
      services.log.write({ level: "info", event, node: member.name, ms: taken.waitMs });
      await new Promise<void>((resolve) => services.clock.after(taken.waitMs, resolve));
    }
  }

  get epoch(): number {
    return this.term.epoch;
  }

  /** Throws Fault 503 if another server may have taken this place. */
  requireLease(): void {
    if (this.#isReplaced) {
      throw new Fault(
        503,
        `another server has taken the place of ${this.member.name} in the database. FIX: stop one of the two; a data ` +
          "folder must not be copied to a second machine",
      );
    }
    if (this.services.elapsedMs() < this.term.endsAtMs) return;
    throw new Fault(
      503,
      "the database has not been available for some seconds; running sandboxes and their URLs keep working. Try again in a moment",
      { retryAfterSeconds: RETRY_AFTER_SECONDS },
    );
  }

  /** Gives the lease back. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    await this.#renewing;
    const { store, log } = this.services;
    await store.nodes.renew(this.member.identity, this.epoch, 0).catch((error: unknown) => {
      log.write({ level: "warn", event: "the lease could not be given back", error: described(error) });
    });
  }

  #renewLater(): void {
    if (this.#closed || this.#isReplaced) return;
    this.#timer = this.services.clock.after(LEASE_RENEWED_EVERY_MS, () => {
      this.#renewing = this.#renew().finally(() => this.#renewLater());
    });
  }

  async #renew(): Promise<void> {
    const { store, log, elapsedMs } = this.services;
    const startedMs = elapsedMs();
    try {
      if (await store.nodes.renew(this.member.identity, this.epoch, LEASE_MS)) {
        this.term.endsAtMs = startedMs + LEASE_MS;
        if (this.#isFailing) log.write({ level: "info", event: "the database is available again" });
        this.#isFailing = false;
      } else {
        this.#isReplaced = true;
        log.write({ level: "error", event: "another server has taken this server's place in the database" });
      }
    } catch (error) {
      // Once for each outage.
      const event = "the database is not available; sandboxes keep running, changes are rejected";
      if (!this.#isFailing) log.write({ level: "error", event, error: described(error) });
      this.#isFailing = true;
    }
  }
}

/** The new epoch, or how long to wait for the end of a lease. */
async function takePlace(
  { nodes }: Pick<Store, "nodes">,
  member: Member,
): Promise<{ epoch: number } | { waitMs: number }> {
  await nodes.lock();
  const [now, all] = [await nodes.now(), await nodes.all()];
  requireNoOther(all, now, member.identity);
  const own = all.find(({ identity }) => identity === member.identity);
  // The lock of the data folder shows that a run since the machine's start is over; another machine may have a copy.
  if (own !== undefined && own.boot !== member.boot && own.leaseUntil > now) return { waitMs: own.leaseUntil - now };
  const epoch = (own?.epoch ?? 0) + 1;
  await nodes.remove(member.identity);
  await nodes.add({ ...member, epoch, leaseUntil: now + LEASE_MS, address: null });
  return { epoch };
}

/** Throws Fault 409 if a server of another data folder has the database. */
export function requireNoOther(nodes: readonly Node[], databaseNow: number, identity: string): void {
  const other = nodes.find((node) => node.identity !== identity);
  if (other !== undefined) throw held(other, other.leaseUntil > databaseNow);
}

function held({ name }: Node, isLive: boolean): Fault {
  if (isLive) {
    return new Fault(
      409,
      `the database is in use by the server ${name}; one database serves one server. FIX: give this server a database ` +
        `of its own with SANDLOT_STORE, or stop ${name} and start on its data folder`,
    );
  }
  return new Fault(
    409,
    `the database belongs to the data folder of the server ${name}, which does not run. FIX: start on that data folder ` +
      "(SANDLOT_DATA), or give this server a database of its own (docs/postgres.md#a-lost-machine)",
  );
}

function copied({ name }: Member): Fault {
  return new Fault(
    409,
    `another machine serves a copy of this data folder as the server ${name}. FIX: stop one of the two`,
  );
}
