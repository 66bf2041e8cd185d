/**
 * Postgres through two pools of connections: one for the work, and one connection for what must get through while the
 * work waits. A lost connection fails its statements, and the next statement connects again.
 */
import { SQL } from "bun";
import { scaled } from "../base/time-factor.ts";
import { Fault, UncertainOutcome } from "../contract/fault.ts";
import { type Durability, type Engine, joined, type Row, type Statement, sqlPart } from "./statement.ts";

const CONNECTIONS_MAX = 10;
const CONNECT_SECONDS = scaled(5_000) / 1000;
/** The database ends a statement that takes longer. */
const STATEMENT_MS = scaled(15_000);
/** Without a response for this long, the connections are given up: the database or the way to it is gone. */
const SILENCE_MS = STATEMENT_MS + scaled(5_000);
const UNGUARDED_SILENCE_MS = scaled(5_000);
/** A firewall may forget connections without traffic, and then drops what they send. */
const IDLE_SECONDS = 60;
const RETRY_AFTER_SECONDS = 2;
/** Any number that is the same in all versions: the lock of migrations. */
const MIGRATION_LOCK = 5_247_108_901;

export async function openPostgres(url: string): Promise<Engine> {
  const engine = new Postgres(url);
  try {
    await engine.unguarded`SELECT 1`;
    return engine;
  } catch (error) {
    await engine.close();
    throw error;
  }
}

class Postgres implements Engine {
  readonly name = "postgres";
  readonly clock = sqlPart`CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)`;
  readonly #work: Pool;
  readonly #unguarded: Pool;
  #check: (() => void) | undefined;

  constructor(url: string) {
    this.#work = new Pool(url, CONNECTIONS_MAX, SILENCE_MS);
    this.#unguarded = new Pool(url, 1, UNGUARDED_SILENCE_MS);
  }

  readonly sql: Statement = async (...query) => {
    this.#check?.();
    return await this.#work.ask(...query);
  };

  readonly quick: Statement = (...query) => this.transaction((sql) => sql(...query), "server");

  readonly unguarded: Statement = (...query) => this.#unguarded.ask(...query);

  async transaction<T>(work: (sql: Statement) => Promise<T>, durability: Durability = "machine"): Promise<T> {
    this.#check?.();
    return await this.#work.transact(work, durability === "server" ? ["SET LOCAL synchronous_commit = off"] : []);
  }

  async migration<T>(work: (sql: Statement) => Promise<T>): Promise<T> {
    this.#check?.();
    const first = ["SET LOCAL statement_timeout = 0", `SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`];
    return await this.#work.transact(work, first, null);
  }

  async hasTable(name: string): Promise<boolean> {
    return (await this.sql`SELECT to_regclass(${name}) AS found`).rows[0]?.found !== null;
  }

  guard(check: () => void): void {
    this.#check = check;
  }

  /** The database server manages its own disk. */
  async makeRoom(): Promise<void> {
    return undefined;
  }

  async close(): Promise<void> {
    await Promise.all([this.#work.close(), this.#unguarded.close()]);
  }
}

/** Connections that are replaced when the database does not respond. */
class Pool {
  #db: SQL;

  constructor(
    private readonly url: string,
    private readonly connectionsMax: number,
    private readonly silenceMs: number,
  ) {
    this.#db = this.#open();
  }

  readonly ask: Statement = (...query) => this.#answered(this.silenceMs, (db) => statementOn(db)(...query));

  /** `first` are statements without values. `silenceMs` null: waits for as long as it takes. */
  transact<T>(
    work: (sql: Statement) => Promise<T>,
    first: readonly string[],
    silenceMs: number | null = this.silenceMs,
  ): Promise<T> {
    return this.#answered(silenceMs, async (db, noteLife) => {
      let mayBeCommitted = false;
      try {
        return await db.begin(async (tx) => {
          const sql = statementOn(tx);
          for (const text of first) await tx.unsafe(text);
          const value = await work(async (...query) => {
            const result = await sql(...query);
            noteLife();
            return result;
          });
          mayBeCommitted = true;
          return value;
        });
      } catch (error) {
        // Without a commit, the loss of the connection has rolled it back.
        throw mayBeCommitted ? error : certain(error);
      }
    });
  }

  async close(): Promise<void> {
    await this.#db.close({ timeout: 0 });
  }

  #open(): SQL {
    return new SQL(this.url, {
      max: this.connectionsMax,
      connectionTimeout: CONNECT_SECONDS,
      idleTimeout: IDLE_SECONDS,
      connection: {
        application_name: "sandlot",
        statement_timeout: String(STATEMENT_MS),
        // Frees the locks of a server whose machine is gone.
        idle_in_transaction_session_timeout: String(SILENCE_MS),
      },
    });
  }

  async #answered<T>(silenceMs: number | null, work: (db: SQL, noteLife: () => void) => Promise<T>): Promise<T> {
    const db = this.#db;
    const silent = Promise.withResolvers<never>();
    const timer =
      silenceMs === null
        ? undefined
        : setTimeout(() => {
            silent.reject(new UncertainOutcome(UNAVAILABLE, RETRY_AFTER_SECONDS, new Error("the database is silent")));
            this.#replace(db);
          }, silenceMs);
    try {
      const done = work(db, () => timer?.refresh());
      return await (timer === undefined ? done : Promise.race([done, silent.promise]));
    } catch (error) {
      // A server that was demoted in a failover: a new connection may reach its successor.
      if (stateOf(error) === READ_ONLY) this.#replace(db);
      throw explained(error);
    } finally {
      clearTimeout(timer);
    }
  }

  #replace(db: SQL): void {
    if (db !== this.#db) return;
    this.#db = this.#open();
    db.close({ timeout: 0 }).catch(() => undefined);
  }
}

function statementOn(db: SQL): Statement {
  return async (strings, ...values) => {
    const whole = joined(strings, values);
    // A template without parts is passed on as the same object, which the driver recognises.
    const template = whole.strings === strings ? strings : templateOf(whole.strings);
    const answer: Row[] & { count?: number | null } = await db(template, ...whole.values);
    return { rows: [...answer], count: answer.count ?? 0 };
  };
}

/** The driver accepts SQL only from a template, which it recognises by `raw`. */
function templateOf(strings: readonly string[]): TemplateStringsArray {
  return Object.defineProperty([...strings], "raw", { value: strings }) as unknown as TemplateStringsArray;
}

const UNAVAILABLE =
  "the database is not available; running sandboxes and their URLs keep working. Try again in a moment";

/** Codes of the driver: there was no connection, so nothing was sent. */
const NOT_CONNECTED =
  /^ERR_POSTGRES_(?:CONNECTION_REFUSED|CONNECTION_FAILED|CONNECTION_TIMEOUT|TLS_|PASSWORD_|AUTHENTICATION_|UNKNOWN_AUTH|UNSUPPORTED_AUTH)/;
/** The same, for a certificate that is not trusted. */
const NOT_TRUSTED = /^(?:ERR_TLS_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/;
/** Codes of the driver: the connection ended, perhaps before the reply to a commit. */
const CONNECTION_LOST = /^ERR_POSTGRES_(?:CONNECTION_|IDLE_TIMEOUT|LIFETIME_TIMEOUT|QUERY_CANCELLED)/;
/**
 * Conditions (SQLSTATE) that the database reports instead of work: no room for a connection, a refused login, a missing
 * database, no start yet; a statement that took too long; a deadlock; a server that only reads.
 */
const NO_SERVICE = /^(?:53|28|3D000$|57P03$|57014$|40P01$|40001$|25006$)/;
const READ_ONLY = "25006";
/** Conditions that end the connection. */
const CLOSING = /^(?:08|57P0[125]|25P03)/;

/** The condition that the database reported, or "". */
function stateOf(error: unknown): string {
  return error instanceof SQL.PostgresError && typeof error.errno === "string" ? error.errno : "";
}

/** An unavailable database as Fault 503, or as an uncertain outcome if the statement may have had its effect. */
function explained(error: unknown): unknown {
  if (error instanceof Error && "code" in error && NOT_TRUSTED.test(String(error.code))) return unavailable(error);
  if (!(error instanceof SQL.PostgresError)) return error;
  const state = stateOf(error);
  if (NOT_CONNECTED.test(error.code) || NO_SERVICE.test(state)) return unavailable(error);
  if (CONNECTION_LOST.test(error.code) || CLOSING.test(state)) {
    return new UncertainOutcome(UNAVAILABLE, RETRY_AFTER_SECONDS, error);
  }
  return error;
}

/** For a change that was certainly not made. */
function certain(error: unknown): unknown {
  const shown = explained(error);
  return shown instanceof UncertainOutcome ? Fault.from(shown) : shown;
}

function unavailable(cause: Error): Fault {
  return new Fault(503, `${UNAVAILABLE} (${cause.message})`, { cause, retryAfterSeconds: RETRY_AFTER_SECONDS });
}
