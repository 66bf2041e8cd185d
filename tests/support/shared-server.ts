/**
 * One server for all files of a run that only use its interface: the first file starts it, and it ends with the run.
 * After each file its leftovers are removed, so that the next file finds the server empty.
 */
import { afterAll, beforeAll } from "bun:test";
import { Sandbox } from "e2b";
import type { RuntimeName } from "../../src/contract/runtime-name.ts";
import { isRunning } from "../../src/host/testing/outer-network.ts";
import { DEFINITIONS } from "../../templates/definitions.ts";
import { newDataFolder, startServer, type TestServer } from "./server.ts";

const LEFT_MAX_PAGES = 50;
/** The templates that every server lists. */
export const BUILT_IN: ReadonlySet<string> = new Set(DEFINITIONS.map(({ id }) => id));

/** Files run one after the other in one process, which keeps these: one for each name. */
const current = new Map<string, TestServer>();
let started = 0;

interface SharedServer {
  name: string;
  settings: Record<string, string>;
  /** How long its start may take; as long as is usual unless given. */
  readyMs?: number;
}

/** Sandboxes with runsc boot slowly, so none is made ahead. */
const SETTINGS: Readonly<Record<RuntimeName, Record<string, string>>> = {
  crun: {},
  runsc: { SANDLOT_WALL: "runsc", SANDLOT_READY: "0" },
};

export function sharedServer(runtime: RuntimeName = "crun"): () => TestServer {
  return serverShared({ name: runtime, settings: SETTINGS[runtime] });
}

/** A server with these settings, under its own name. */
export function serverShared(wanted: SharedServer): () => TestServer {
  const { name, readyMs } = wanted;
  beforeAll(() => runningServer(wanted), readyMs);
  afterAll(async () => {
    const server = current.get(name);
    if (server === undefined) return;
    if (!isRunning(server.pid)) throw new Error(`the shared server ended under this file:\n${server.output()}`);
    await endAllOn(server);
  });
  return () => {
    const server = current.get(name);
    if (server === undefined) throw new Error("the server runs only while tests do");
    return server;
  };
}

async function runningServer({ name, settings, readyMs }: SharedServer): Promise<void> {
  const before = current.get(name);
  if (before !== undefined && isRunning(before.pid)) return;
  // The server of the lane before may still be about to stop.
  const folder = newDataFolder(`shared-${name}-${++started}`);
  const server = await startServer(folder, settings, readyMs);
  process.on("exit", () => void server.stop());
  current.set(name, server);
}

async function endAllOn(server: TestServer): Promise<void> {
  const { sandboxes, snapshots, templates } = await leftOn(server);
  for (const id of sandboxes) await Sandbox.kill(id, server.options);
  for (const id of snapshots) await Sandbox.deleteSnapshot(id, server.options);
  for (const id of templates) {
    const { status } = await server.call("DELETE", `/templates/${id}`);
    // 404: an earlier deletion, whose response the test did not await, was carried out.
    if (status !== 204 && status !== 404)
      throw new Error(`template ${id} cannot be deleted from the shared server: ${status}`);
  }
}

interface Left {
  sandboxes: string[];
  snapshots: string[];
  templates: string[];
}

/** Ids of everything on the server except its built-in resources. */
export async function leftOn({ options, call }: TestServer): Promise<Left> {
  const sandboxes = await allOf(Sandbox.list({ ...options, query: { state: ["running", "paused"] } }));
  const snapshots = await allOf(Sandbox.listSnapshots(options));
  const templates = (await call("GET", "/templates")).body as { templateID: string }[];
  return {
    sandboxes: sandboxes.map(({ sandboxId }) => sandboxId),
    snapshots: snapshots.map(({ snapshotId }) => snapshotId),
    templates: templates.map(({ templateID }) => templateID).filter((id) => !BUILT_IN.has(id)),
  };
}

async function allOf<T>(paginator: { hasNext: boolean; nextItems(): Promise<T[]> }): Promise<T[]> {
  const found: T[] = [];
  for (let page = 0; paginator.hasNext; page++) {
    if (page === LEFT_MAX_PAGES) throw new Error(`more than ${LEFT_MAX_PAGES} pages are left on the shared server`);
    found.push(...(await paginator.nextItems()));
  }
  return found;
}
