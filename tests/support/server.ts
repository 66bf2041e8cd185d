/** A real server for tests, started as a user starts it, on its own data folder. */
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { freePort } from "../../src/base/testing/free-port.ts";
import { serverEnv } from "../../src/cli/testing/server-env.ts";
import { authorityFile, isRunning } from "../../src/host/testing/outer-network.ts";
import { dropImageMarks } from "../../src/images/cached-images.ts";
import { dropGuestMarks } from "../../src/images/guest-folders.ts";
import { teardown } from "../../src/setup/teardown.ts";
import { run } from "../../src/system/command.ts";
import { DataFolder, dataFolderOf, otherServers } from "../../src/system/data-folder.ts";
import { CACHE } from "./cache.ts";
import { keepServerLine } from "./server-log.ts";

/** Not in memory: disks of sandboxes lie here. */
const TEST_ROOT = "/var/tmp/sandlot-test";
const PROJECT = join(import.meta.dir, "../..");
const READY_MS = 180_000;

export interface TestServer {
  url: string;
  apiKey: string;
  dataFolder: string;
  /** The options of the SDK. */
  options: { apiUrl: string; sandboxUrl: string; apiKey: string };
  /** Asks the management API, with the server's first key. */
  call: (method: string, path: string, body?: unknown) => ReturnType<typeof askManagement>;
  /** The server process itself. */
  pid: number;
  /** Everything printed so far. */
  output(): string;
  /** SIGTERM, then waits for the end. Sandboxes run on. */
  stop(): Promise<number>;
  /** SIGKILL: as if the power of the server, not of the machine, had gone. */
  crash(): Promise<void>;
}

/** A data folder unique to this process: files that run side by side may use the same name. */
export function newDataFolder(name: string): string {
  return join(TEST_ROOT, String(process.env.SANDLOT_TEST_RUN ?? process.pid), `${process.pid}-${name}`);
}

/** Starts a server on `dataFolder`, new or left by an earlier one, and waits for its banner. */
export async function startServer(
  dataFolder: string,
  extra: Record<string, string> = {},
  readyMs = READY_MS,
  /** Of another version. */
  project = PROJECT,
): Promise<TestServer> {
  mkdirSync(dataFolder, { recursive: true });
  const port = freePort();
  // On a shared server, a template that one file used would be kept ready for clients that never come.
  // The machine trusts the sites of the tests' internet.
  const authority = authorityFile(String(process.env.SANDLOT_TEST_RUN));
  const roots = existsSync(authority) ? { NODE_EXTRA_CA_CERTS: authority } : {};
  const own = { SANDLOT_LISTEN: `127.0.0.1:${port}`, SANDLOT_READY_MAX: "0", ...roots };
  const env = serverEnv(dataFolder, { ...own, ...extra });
  const child = Bun.spawn([process.execPath, join(project, "src/cli/main.ts"), "up"], {
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  const ready = Promise.withResolvers<void>();
  const read = async (stream: ReadableStream<Uint8Array>, onLine: (line: string) => void = () => undefined) => {
    const decoder = new TextDecoder();
    let line = "";
    for await (const chunk of stream) {
      const text = decoder.decode(chunk, { stream: true });
      output += text;
      const lines = (line + text).split("\n");
      line = lines.pop() ?? "";
      for (const whole of lines) onLine(whole);
      if (/Sandlot is ready.*export E2B_API_KEY=.*\n/s.test(output)) ready.resolve();
    }
    onLine(line);
  };
  void read(child.stdout);
  void read(child.stderr, keepServerLine);
  void child.exited.then((code) => {
    if (code !== 0) keepServerLine(`the server on ${dataFolder} ended with ${code}`);
  });
  const failed = child.exited.then((code) => {
    throw new Error(`the server ended with ${code} before it was ready:\n${output}`);
  });
  failed.catch(() => undefined);
  const late = Bun.sleep(readyMs).then(() => {
    throw new Error(`the server was not ready within ${readyMs} ms:\n${output}`);
  });
  late.catch(() => undefined);
  await Promise.race([ready.promise, failed, late]);

  const url = `http://127.0.0.1:${port}`;
  const apiKey = readFileSync(join(dataFolder, "api-key"), "utf8").trim();
  return {
    url,
    apiKey,
    dataFolder,
    options: { apiUrl: url, sandboxUrl: url, apiKey },
    call: (method, path, body) => askManagement(`${url}${path}`, apiKey, method, body),
    pid: child.pid,
    output: () => output,
    async stop() {
      child.kill("SIGTERM");
      return await child.exited;
    },
    async crash() {
      child.kill("SIGKILL");
      await child.exited;
    },
  };
}

export async function askManagement(url: string, apiKey: string, method: string, body?: unknown, withinMs?: number) {
  const headers = { "X-API-Key": apiKey, "Content-Type": "application/json" };
  const signal = withinMs === undefined ? null : AbortSignal.timeout(withinMs);
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await fetch(url, { method, headers, signal, ...sent });
  const text = await response.text();
  return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
}

/** Runs `sandlot down` in the network that `enter` leads into. */
export async function tearDownServer(dataFolder: string, enter: readonly string[] = []): Promise<void> {
  const command = [...enter, process.execPath, join(PROJECT, "src/cli/main.ts"), "down"];
  await run(command, { env: serverEnv(dataFolder), timeoutMs: 120_000 });
}

/** Removes a stopped server with its data. This process has the code for it loaded already, unlike `sandlot down`. */
export async function removeServer(dataFolder: string): Promise<void> {
  if (!existsSync(join(dataFolder, "server.json"))) return;
  const data = new DataFolder(dataFolder);
  // A failed test may leave its server running.
  if (data.inUse) await tearDownServer(dataFolder);
  await teardown(data, CACHE, { keepData: false });
}

/**
 * Tears down the servers of test runs that were killed, before a new run begins. That is done in the network of the new
 * run: a server of the machine may have the address that a server of a test had in its own network.
 */
export async function removeStaleServers(enter: readonly string[]): Promise<void> {
  if (!existsSync(TEST_ROOT)) return;
  for (const run of readdirSync(TEST_ROOT)) if (!isRunning(Number(run))) await removeServersOf(run, enter);
}

/** Tears down all servers that a run has left, and removes their data. */
export async function removeServersOf(run: string, enter: readonly string[]): Promise<void> {
  const folder = join(TEST_ROOT, run);
  if (!existsSync(folder)) return;
  for (const name of readdirSync(folder)) {
    const dataFolder = join(folder, name);
    if (!existsSync(join(dataFolder, "server.json"))) continue;
    const { runFolder, tag } = new DataFolder(dataFolder);
    if (existsSync(runFolder)) await tearDownServer(dataFolder, enter);
    dropGuestMarks(CACHE, tag);
    dropImageMarks(CACHE, tag);
  }
  await rm(folder, { recursive: true, force: true });
}

/** Run folders that tests of this run have left: each takes one of the few nets of the machine. */
export function runFoldersLeftBy(run: string): string[] {
  return otherServers("").flatMap((runFolder) => {
    const dataFolder = dataFolderOf(runFolder) ?? "";
    return dataFolder.startsWith(join(TEST_ROOT, run, "/")) ? [`${runFolder}, of ${dataFolder}`] : [];
  });
}
