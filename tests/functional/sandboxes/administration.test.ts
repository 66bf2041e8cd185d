/** Administration of a real server: endpoints of administrators and the login, and the deletion of a team from disk. */
import { beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { Sandbox, Template, Volume } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { folderOfFile } from "../../../src/base/testing/test-folder.ts";
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import type { AuditView } from "../../../src/contract/management/admin.ts";
import { Browser } from "../../../src/control/testing/login-browser.ts";
import { attempt } from "../../../src/system/command.ts";
import { sandlot } from "../../support/sandlot-keys.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { pathsWith } from "../../support/stored-text.ts";
import { until } from "../../support/until.ts";

const MAIN = `${import.meta.dir}/../../../src/cli/main.ts`;
/** Housekeeping comes every minute. */
const REMOVED_WITHIN_MS = 180_000;
const server = sharedServer();
const context = folderOfFile("planted-files");
let adminToken: string;
beforeAll(async () => {
  adminToken = await sandlot(server(), "admin", "create", "of-tests");
});

async function admin(method: string, path: string, body?: object, token = adminToken) {
  const response = await fetch(`${server().url}${path}`, {
    method,
    headers: { "X-Admin-Token": token, "Content-Type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
}

/** Runs a command with this text as its input. */
async function sandlotWith(stdin: string, ...args: string[]): Promise<void> {
  const env = serverEnv(server().dataFolder);
  const { exitCode, stderr } = await attempt([process.execPath, MAIN, ...args], { env, stdin });
  expect([exitCode, stderr]).toEqual([0, ""]);
}

/** A new team, and the options of its clients. */
async function newTeam(slug: string) {
  const { teamID } = (await admin("POST", "/admin/teams", { slug })).body;
  const { key: apiKey } = (await admin("POST", `/admin/teams/${teamID}/api-keys`, { name: "of-tests" })).body;
  return { teamID, options: { ...server().options, apiKey } };
}

/** Resolves when the team is gone. */
async function deleteTeam(id: string): Promise<void> {
  expect((await admin("DELETE", `/admin/teams/${id}`)).status).toBe(202);
  const teams = async () => JSON.stringify((await admin("GET", "/admin/teams")).body);
  await until("the team is gone", async () => !(await teams()).includes(id));
}

/** A browser that reaches the server from outside. */
function newBrowser(): Browser {
  const handle = (request: Request) => {
    const { pathname, search } = new URL(request.url);
    return fetch(new Request(`${server().url}${pathname}${search}`, request), { redirect: "manual" });
  };
  return new Browser({ handle });
}

describe("through the edge", () => {
  test("an admin token administers teams, sandboxes and the machine, and no other key does", async () => {
    const { teamID, options } = await newTeam("administered");
    const sandbox = await Sandbox.create(options);
    const path = `/admin/sandboxes/${sandbox.sandboxId}`;
    expect(await admin("GET", path)).toMatchObject({ status: 200, body: { teamID, state: "running" } });
    for (const token of ["", options.apiKey, `${adminToken.slice(0, -4)}0000`]) {
      expect((await admin("GET", path, undefined, token)).status).toBe(401);
      expect((await admin("DELETE", `/admin/teams/${teamID}`, undefined, token)).status).toBe(401);
    }
    expect((await server().call("GET", "/nodes")).status).toBe(401);
    const [node] = (await admin("GET", "/nodes")).body;
    expect(node).toMatchObject({ id: "local", status: "ready", metrics: { cpuCount: availableParallelism() } });
    expect(node.sandboxCount).toBeGreaterThan(0);
    expect(node.metrics.memoryUsedBytes).toBeGreaterThan(0);
    expect(node.metrics.memoryUsedBytes).toBeLessThan(node.metrics.memoryTotalBytes);
    expect(node.metrics.disks[0].usedBytes).toBeGreaterThan(0);
    expect((await admin("GET", `/nodes/local?clusterID=${node.clusterID}`)).status).toBe(200);
    expect((await admin("GET", `/nodes/local?clusterID=${crypto.randomUUID()}`)).status).toBe(404);

    expect((await admin("POST", "/nodes/local", { status: "draining" })).status).toBe(204);
    try {
      await expect(Sandbox.create(options)).rejects.toThrow("drains this machine");
      expect((await sandbox.commands.run("echo goes on")).stdout).toBe("goes on\n");
    } finally {
      expect((await admin("POST", "/nodes/local", { status: "ready" })).status).toBe(204);
    }
    const killed = await admin("POST", `/admin/teams/${teamID}/sandboxes/kill`);
    expect(killed).toEqual({ status: 200, body: { killedCount: 1, failedCount: 0 } });
    expect(await sandbox.isRunning()).toBe(false);
    // Entries are written every second.
    const audited = async () => (await admin("GET", `/admin/audit?teamID=${teamID}`)).body as AuditView[];
    await until("the kill is recorded", async () => (await audited()).some(({ action }) => action.endsWith("/kill")));
    const entry = (await audited()).find(({ action }) => action.endsWith("/kill"));
    expect(entry).toMatchObject({ actor: { kind: "admin" }, status: 200, clientAddress: "127.0.0.1" });
    await deleteTeam(teamID);
  });

  test("a user signs in with a password, and the login's token works until it is revoked", async () => {
    const [email, password] = ["ada@example.com", "correct horse battery"];
    const made = await admin("POST", "/admin/users", { email });
    expect(made.status).toBe(201);
    await sandlotWith(`${password}\n`, "users", "password", email);
    const browser = newBrowser();
    expect((await browser.open("/docs/api/cli?next=http://localhost:21199")).status).toBe(200);
    expect((await browser.submit("/login", { email, password: "wrong horse battery" })).status).toBe(401);
    expect((await browser.submit("/login", { email, password })).status).toBe(200);
    const { status, headers } = await browser.submit("/login/allow", { decision: "allow" });
    expect(status).toBe(303);
    const given = Object.fromEntries(new URL(headers.get("location") ?? "").searchParams);
    expect(given).toMatchObject({ email, tokenEndpoint: `${server().url}/oauth/token` });
    const teams = async (token = "") =>
      (await fetch(`${server().url}/teams`, { headers: { Authorization: `Bearer ${token}` } })).status;
    const post = (path: string, fields: Record<string, string>) =>
      fetch(`${server().url}${path}`, { method: "POST", body: new URLSearchParams(fields) });
    expect(await teams(given.accessToken)).toBe(200);
    const fields = { grant_type: "refresh_token", refresh_token: given.refreshToken ?? "" };
    const { access_token } = await (await post("/oauth/token", fields)).json();
    expect(await teams(access_token)).toBe(200);
    expect((await post("/oauth/revoke", { token: access_token })).status).toBe(200);
    expect(await teams(access_token)).toBe(401);
    expect((await admin("DELETE", `/admin/users/${made.body.userID}`)).status).toBe(200);
  });
});

describe("deleting a team", () => {
  /** No file of the server has this text before the test. */
  const MARK = `planted-${crypto.randomUUID()}`;
  /**
   * The store keeps audit entries of the team, which name its resources; tests of the store look at its rows. Freed
   * blocks of the filesystem of disks are not overwritten, but no file of it has them.
   */
  const NOT_SEARCHED = /^(store\.sqlite.*|disks\.(btrfs|xfs))$/;
  /** Images stay for a minute after their build, and until the next round of housekeeping. */
  const STAYS_FOR_MINUTES = LONG ? undefined : join("disks", "images");

  /** In the data folder, as the server sees its mounts. */
  function stored(texts: readonly string[], skipped?: string): string[] {
    const root = `/proc/${server().pid}/root${server().dataFolder}`;
    return pathsWith(root, texts, (path) => NOT_SEARCHED.test(path) || path === skipped);
  }

  test(
    "leaves no file with its bytes or ids in the data folder, also no cached layer of its builds",
    async () => {
      const { teamID, options } = await newTeam("leaving");
      mkdirSync(context, { recursive: true });
      writeFileSync(join(context, "copied"), MARK);
      const template = Template({ fileContextPath: context })
        .fromTemplate("base")
        .copy("copied", "/srv/copied")
        .setEnvs({ PLANTED: MARK })
        .runCmd(`echo ${MARK} > /srv/written`, { user: "root" });
      const { templateId } = await Template.build(template, "leaving", { ...options, cpuCount: 1, memoryMB: 256 });
      const volume = await Volume.create("leaving", options);
      const volumeMounts = { "/data": volume };
      const sandbox = await Sandbox.create("leaving", { ...options, envs: { PLANTED: MARK }, volumeMounts });
      await sandbox.commands.run(`echo ${MARK} | tee /home/user/own > /data/kept; sync`);
      await sandbox.createSnapshot();
      await sandbox.pause();
      const texts = [MARK, sandbox.sandboxId, templateId, teamID];
      const before = stored(texts).join("\n");
      for (const folder of ["disks/layers/", "disks/images/", "disks/checkpoints/", "volumes/", "blobs/"]) {
        expect(before).toContain(folder);
      }

      await deleteTeam(teamID);
      let left: string[] = [];
      await until(
        "its files are gone",
        () => {
          left = stored(texts, STAYS_FOR_MINUTES);
          return left.length === 0;
        },
        REMOVED_WITHIN_MS,
      ).catch(() => undefined);
      expect(left).toEqual([]);
    },
    2 * REMOVED_WITHIN_MS,
  );
});
