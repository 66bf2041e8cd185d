/**
 * The gateway's background process. It reads configuration and token from standard input, so that they are not visible
 * on its command line, and reports its start as one line of JSON on standard output.
 */
import { mkdir } from "node:fs/promises";
import { Fault } from "../contract/fault.ts";
import { accessToken, checkToken, writeTokenFile } from "./access-token.ts";
import { STATE_FOLDER } from "./catalogue.ts";
import { parseConfig, type ServerPlan } from "./config.ts";
import { FrontDoor, MCP_PORT } from "./front-door.ts";
import { Gateway } from "./gateway.ts";
import { REQUEST_MAX_BYTES } from "./limits.ts";
import { LOG_FILE, LogFile } from "./log-file.ts";
import { endPreviousGateway, recordGateway } from "./previous-gateway.ts";
import { fetchRepository, installRepository } from "./servers/repository.ts";
import { giveToUser, USER } from "./servers/run-as-user.ts";

/** The client that starts the gateway gives up after 60 s and would then miss the reason of a failure. */
export const START_ALL_MS = 55_000;
const IDLE_CONNECTION_SECONDS = 120;

/** Sent by the launching process. */
export interface Settings {
  config: string;
  token: string;
}

/** Sent to the launching process. */
export type Report = { ready: true } | { ready: false; message: string };

export async function runInBackground(report: (report: Report) => void): Promise<void> {
  const log = new LogFile(LOG_FILE);
  const { config, token } = (await Bun.stdin.json()) as Settings;
  try {
    await serve(parseConfig(config), checkToken(token), log);
  } catch (error) {
    if (!(error instanceof Fault)) log.write(String((error as Error)?.stack ?? error));
    const { message } = error instanceof Fault ? error : new Fault(500, `${(error as Error)?.message ?? error}`);
    log.write(message);
    report({ ready: false, message });
    process.exit(1);
  }
  report({ ready: true });
}

async function serve(plans: readonly ServerPlan[], token: string, log: LogFile): Promise<void> {
  const signal = AbortSignal.timeout(START_ALL_MS);
  await prepare(plans, signal);
  const gateway = new Gateway(plans, USER, (line) => log.write(line));
  await gateway.start(signal);
  const door = new FrontDoor(gateway, accessToken(token));
  try {
    await endPreviousGateway();
    const server = listen(door);
    endOnSignal(async () => {
      server.stop();
      await Promise.all([door.close(), gateway.close()]);
    });
    await writeTokenFile(token);
    await recordGateway();
  } catch (error) {
    await gateway.close();
    throw error;
  }
}

async function prepare(plans: readonly ServerPlan[], signal: AbortSignal): Promise<void> {
  await mkdir(STATE_FOLDER, { recursive: true });
  await giveToUser(STATE_FOLDER);
  await Promise.all(
    plans.map(async ({ repository, variables }) => {
      if (repository === undefined) return;
      await fetchRepository(repository, signal);
      await installRepository(repository, variables, signal);
    }),
  );
}

function listen(door: FrontDoor): Bun.Server<undefined> {
  return Bun.serve({
    port: MCP_PORT,
    hostname: "0.0.0.0",
    // Streams send keepalives, however long a call takes.
    idleTimeout: IDLE_CONNECTION_SECONDS,
    maxRequestBodySize: REQUEST_MAX_BYTES,
    fetch: (request) => door.handle(request),
    error: () => new Response("internal error of the gateway", { status: 500 }),
  });
}

function endOnSignal(close: () => Promise<void>): void {
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.once(signal, () => void close().finally(() => process.exit(0)));
  }
}
