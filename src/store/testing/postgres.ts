/**
 * A Postgres server for tests: in a temporary folder, on loopback, removed afterwards. Never used by the server itself.
 */
import { existsSync } from "node:fs";
import { chown, rm } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "../../base/system-code.ts";
import { freePort } from "../../base/testing/free-port.ts";
import { openStore } from "../store.ts";
import { newDatabaseFolder } from "./database-folder.ts";

const COMMAND_MS = 120_000;
/** A run makes some hundred databases of 8 MB, and is over before any of them needs a vacuum. */
const FREE_MIN_BYTES = 5 * 1024 ** 3;
const SETTINGS = { autovacuum: "off", wal_level: "minimal", max_wal_senders: "0", max_wal_size: "256MB" };

const PROGRAM_FOLDERS = [18, 17, 16, 15, 14].map((version) => `/usr/lib/postgresql/${version}/bin`);

/** Undefined: the server programs are not on this machine. */
export const postgresPrograms = PROGRAM_FOLDERS.find((folder) => existsSync(join(folder, "initdb")));

/** The address of a server that all files of a run share. */
export const SHARED_POSTGRES = "SANDLOT_TEST_POSTGRES";

/** Template databases for copies. */
const EMPTY = "template0";
const MIGRATED = "migrated";

export interface PostgresFixture extends AsyncDisposable {
  /** Address of the server, without a database. */
  address: string;
  /** Creates a database without tables and returns its URL. */
  emptyDatabase(): Promise<string>;
  /** Creates a database with the current tables; copying is four times as fast as migrating. */
  freshDatabase(): Promise<string>;
}

/** The server that the run shares, or one for this file. */
export async function postgresOfFile(programs: string): Promise<PostgresFixture> {
  const shared = process.env[SHARED_POSTGRES];
  if (shared === undefined) return await startPostgres(programs);
  return {
    address: shared,
    emptyDatabase: () => newDatabase(shared, EMPTY),
    freshDatabase: () => newDatabase(shared, MIGRATED),
    async [Symbol.asyncDispose]() {
      // The run removes it.
    },
  };
}

/** A server of one's own, whose outages are the test's. */
export interface PostgresServer extends PostgresFixture {
  /** Ends it at once, as a crash does. */
  stop(): Promise<void>;
  start(): Promise<void>;
  /** It keeps its connections and answers nothing. */
  freeze(): Promise<void>;
  thaw(): Promise<void>;
}

export async function startPostgres(programs: string): Promise<PostgresServer> {
  const folder = await newDatabaseFolder("sandlot-postgres-", FREE_MIN_BYTES);
  const identity = await unprivilegedIdentity();
  if (identity.uid !== undefined && identity.gid !== undefined) await chown(folder, identity.uid, identity.gid);
  const data = join(folder, "data");
  const initialise = Bun.spawn(
    [join(programs, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"],
    { ...identity, cwd: folder, stdout: "ignore", stderr: "pipe", timeout: COMMAND_MS },
  );
  if ((await initialise.exited) !== 0)
    throw new Error(`initdb failed: ${await new Response(initialise.stderr).text()}`);

  const port = freePort();
  const settings = Object.entries(SETTINGS).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const start = async () => {
    const started = Bun.spawn(
      [join(programs, "postgres"), "-D", data, "-h", "127.0.0.1", "-p", String(port), "-k", folder, "-F", ...settings],
      { ...identity, cwd: folder, stdout: "ignore", stderr: "pipe" },
    );
    await untilItSays(started.stderr, "ready to accept connections");
    return started;
  };
  let server = await start();
  const stop = async () => {
    server.kill("SIGQUIT");
    await server.exited;
  };
  const signalAll = async (signal: "SIGSTOP" | "SIGCONT") => {
    // The postmaster first: it makes the others.
    server.kill(signal);
    const children = await new Response(
      Bun.spawn(["pgrep", "-P", String(server.pid)], { stdout: "pipe" }).stdout,
    ).text();
    for (const pid of children.split("\n").filter(Boolean).map(Number)) {
      try {
        process.kill(pid, signal);
      } catch (error) {
        if (systemCode(error) !== "ESRCH") throw error;
      }
    }
  };
  const address = `postgres://postgres@127.0.0.1:${port}`;
  await (await openStore(await newDatabase(address, EMPTY, MIGRATED), 0)).close();
  return {
    address,
    emptyDatabase: () => newDatabase(address, EMPTY),
    freshDatabase: () => newDatabase(address, MIGRATED),
    stop,
    async start() {
      server = await start();
    },
    freeze: () => signalAll("SIGSTOP"),
    thaw: () => signalAll("SIGCONT"),
    async [Symbol.asyncDispose]() {
      await stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function newDatabase(address: string, template: string, name = randomName()): Promise<string> {
  const admin = new Bun.SQL(`${address}/postgres`, { max: 1 });
  try {
    await admin.unsafe(`CREATE DATABASE ${name} TEMPLATE ${template}`);
  } finally {
    await admin.close();
  }
  return `${address}/${name}`;
}

function randomName(): string {
  return `test_${crypto.randomUUID().replaceAll("-", "")}`;
}

/** Postgres refuses to run as root. */
async function unprivilegedIdentity(): Promise<{ uid?: number; gid?: number }> {
  if (process.getuid?.() !== 0) return {};
  const name = (await numberFrom(["id", "-u", "postgres"])) === undefined ? "nobody" : "postgres";
  const uid = await numberFrom(["id", "-u", name]);
  const gid = await numberFrom(["id", "-g", name]);
  if (uid === undefined || gid === undefined) throw new Error("neither the user postgres nor nobody exists");
  return { uid, gid };
}

async function numberFrom(command: string[]): Promise<number | undefined> {
  const run = Bun.spawn(command, { stdout: "pipe", stderr: "ignore", timeout: COMMAND_MS });
  const output = await new Response(run.stdout).text();
  return (await run.exited) === 0 ? Number(output) : undefined;
}

/** Keeps reading afterwards, so that the server never blocks on a full pipe. */
function untilItSays(stream: ReadableStream<Uint8Array>, words: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let output = "";
    const decoder = new TextDecoder();
    const listen = async () => {
      for await (const chunk of stream) {
        output = (output + decoder.decode(chunk, { stream: true })).slice(-10_000);
        if (output.includes(words)) resolve();
      }
      reject(new Error(`the server ended before it said "${words}": ${output}`));
    };
    listen().catch(reject);
  });
}
