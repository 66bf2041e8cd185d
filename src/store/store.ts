/**
 * The store: rows of people, keys, templates, sandboxes and their activity in SQLite or Postgres. It moves a sandbox
 * from state to state by compare-and-set and migrates its own tables. It never decides anything: it has no clock, no
 * ids and no HTTP, and touches no sandbox.
 */
import { errorMessage } from "../base/error-message.ts";
import { Fault, UncertainOutcome } from "../contract/fault.ts";
import { auditLogIn } from "./audit-log.ts";
import { buildLogsIn } from "./build-logs.ts";
import { buildsIn } from "./builds.ts";
import { buildsInUseIn } from "./builds-in-use.ts";
import { egressChangesIn } from "./egress-changes.ts";
import { type Durability, type Engine, openEngine, type Statement } from "./engine.ts";
import { idempotencyKeysIn } from "./idempotency-keys.ts";
import { keysIn } from "./keys.ts";
import { listedTemplatesIn } from "./listed-templates.ts";
import { loginsIn } from "./logins.ts";
import { metricBlocksIn } from "./metric-blocks.ts";
import { migrate, requireMigrated } from "./migrate.ts";
import { type Node, nodesIn } from "./nodes.ts";
import { peopleIn } from "./people.ts";
import { sandboxEventsIn } from "./sandbox-events.ts";
import { sandboxLogsIn } from "./sandbox-logs.ts";
import { sandboxesIn } from "./sandboxes.ts";
import { secretUsesIn } from "./secret-uses.ts";
import { secretsIn } from "./secrets.ts";
import { serverStateIn } from "./server-state.ts";
import { signingKeysIn } from "./signing-keys.ts";
import { teamActivityIn } from "./team-activity.ts";
import { teamLeftoversIn } from "./team-leftovers.ts";
import { templatesIn } from "./templates.ts";
import { volumesIn } from "./volumes.ts";
import { webhooksIn } from "./webhooks.ts";

/** The tables, through one connection or one transaction. */
export type Tables = Readonly<ReturnType<typeof tablesIn>>;

export interface Store extends Tables {
  /** Everything that `work` does with its tables happens, or nothing does. It must not use the store itself. */
  transaction<T>(work: (tables: Tables) => Promise<T>, durability?: Durability): Promise<T>;
  /** Calls `check` before everything that the store does from now on, except with `nodes`. Only with Postgres. */
  guard(check: () => void): void;
  /** Reserves disk space, so that the store stays writable for a while when the disk is full. */
  makeRoom(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Opens the database at `url` (`sqlite://…`, `postgres://…`) and migrates its tables. `now` dates the migrations.
 * `admit` may throw for the servers that use the database: then nothing is migrated.
 */
export async function openStore(
  url: string,
  now: number,
  admit?: (nodes: readonly Node[], databaseNow: number) => void,
): Promise<Store> {
  return await openAfter(url, async (engine) => {
    if (admit !== undefined) {
      const nodes = nodesIn(engine.sql, engine.clock);
      admit((await engine.hasTable("nodes")) ? await nodes.all() : [], await nodes.now());
    }
    await migrate(engine, now);
  });
}

/** Beside a server, whose tables must stay as they are. Throws Fault 409 if they are of an earlier version. */
export async function openMigratedStore(url: string): Promise<Store> {
  return await openAfter(url, requireMigrated);
}

async function openAfter(url: string, prepare: (engine: Engine) => Promise<void>): Promise<Store> {
  const engine = await openEngine(url).catch((cause) => {
    if (isUnavailable(cause)) throw Fault.from(cause);
    throw new Fault(500, `the database cannot be opened: ${errorMessage(cause)}`, { cause });
  });
  try {
    await prepare(engine);
  } catch (cause) {
    await engine.close();
    if (isUnavailable(cause)) throw Fault.from(cause);
    throw new Fault(500, `the database cannot be brought up to date: ${errorMessage(cause)}`, { cause });
  }
  return {
    ...tablesIn(engine, engine.sql, engine.quick),
    nodes: nodesIn(engine.unguarded, engine.clock),
    transaction: (work, durability) => engine.transaction((sql) => work(tablesIn(engine, sql)), durability),
    guard: (check) => engine.guard(check),
    makeRoom: () => engine.makeRoom(),
    close: () => engine.close(),
  };
}

/** `quick` is for statements that need only survive a crash of the server; a transaction sets that as a whole. */
function tablesIn({ clock }: Engine, sql: Statement, quick: Statement = sql) {
  return {
    nodes: nodesIn(sql, clock),
    people: peopleIn(sql),
    keys: keysIn(sql),
    auditLog: auditLogIn(sql),
    serverState: serverStateIn(sql),
    idempotencyKeys: idempotencyKeysIn(sql),
    logins: loginsIn(sql),
    templates: templatesIn(sql),
    listedTemplates: listedTemplatesIn(sql),
    builds: buildsIn(sql),
    buildsInUse: buildsInUseIn(sql),
    buildLogs: buildLogsIn(sql),
    sandboxes: sandboxesIn(sql, quick),
    egressChanges: egressChangesIn(sql),
    sandboxLogs: sandboxLogsIn(sql),
    metricBlocks: metricBlocksIn(sql),
    sandboxEvents: sandboxEventsIn(sql),
    teamActivity: teamActivityIn(sql),
    teamLeftovers: teamLeftoversIn(sql),
    volumes: volumesIn(sql),
    webhooks: webhooksIn(sql),
    secrets: secretsIn(sql),
    secretUses: secretUsesIn(sql),
    signingKeys: signingKeysIn(sql),
  };
}

function isUnavailable(cause: unknown): boolean {
  return cause instanceof Fault || cause instanceof UncertainOutcome;
}
