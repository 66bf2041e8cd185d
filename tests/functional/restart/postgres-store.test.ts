/** A whole server with its rows in Postgres: its sandboxes, its restart, and an outage of the database. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { failureOf } from "../../../src/base/testing/failure.ts";
import { LONG } from "../../../src/base/testing/long.ts";
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { type PostgresServer, postgresPrograms, startPostgres } from "../../../src/store/testing/postgres.ts";
import { attempt } from "../../../src/system/command.ts";
import { counting, expectCounting } from "../../support/counting.ts";
import { startServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";

const PROJECT = join(import.meta.dir, "../../..");
const PASSWORD = "open/sesame@77";
const title = postgresPrograms ? "Postgres" : "Postgres (not run: its server programs are not on this machine)";
const folder = foldersOfFile();

describe.skipIf(postgresPrograms === undefined)(title, () => {
  let postgres: PostgresServer;
  let settings: Record<string, string>;

  beforeAll(async () => {
    postgres = await startPostgres(postgresPrograms ?? "");
    const admin = new Bun.SQL(`${postgres.address}/postgres`, { max: 1 });
    for (const statement of documentedSetUp()) await admin.unsafe(statement);
    await admin.close();
    const { host } = new URL(postgres.address);
    const store = `postgres://sandlot:${encodeURIComponent(PASSWORD)}@${host}/sandlot`;
    settings = { SANDLOT_STORE: store, SANDLOT_NODE: "first", SANDLOT_READY: "0" };
  });
  afterAll(async () => {
    await postgres[Symbol.asyncDispose]();
  });

  const command = async (data: string, words: string[], extra: Record<string, string>) => {
    const env = serverEnv(data, extra);
    const { stdout, stderr } = await attempt([process.execPath, join(PROJECT, "src/cli/main.ts"), ...words], { env });
    return `${stdout}${stderr}`;
  };

  test("sandboxes survive a crash of the server and an outage of the database, which their URLs do not notice", async () => {
    const data = folder("postgres");
    const first = await startServer(data, settings);
    const day = { ...first.options, timeoutMs: 3_600_000 };
    const [running, paused] = [await Sandbox.create(day), await Sandbox.create(day)];
    await counting(running);
    await counting(paused);
    await paused.pause();
    await expectCounting(await Sandbox.connect(paused.sandboxId, day));
    await paused.pause();

    await first.crash();
    const server = await startServer(data, settings);
    const { options } = server;
    const at = await Sandbox.connect(running.sandboxId, options);
    await expectCounting(at);
    expect(await command(data, ["status"], settings)).toMatch(/store +Postgres at 127\.0\.0\.1:\d+\/sandlot, as first/);
    expect(await command(data, ["keys", "list"], settings)).toContain("first key");
    expect(await command(data, ["backup", "/var/tmp/nowhere"], settings)).toContain("docs/postgres.md#backup");
    expectNoPassword(server.pid, [first.output(), server.output()]);

    await postgres.stop();
    const create = () => server.call("POST", "/sandboxes", { templateID: "base" });
    let refusal = "";
    await until(
      () => `the lease is over: ${refusal}`,
      async () => {
        expect(await at.files.read("/tmp/kept")).toBe("kept\n");
        const { status, body } = await create();
        refusal = body.message;
        expect([status, refusal]).toEqual([
          503,
          expect.stringContaining("running sandboxes and their URLs keep working"),
        ]);
        return refusal.includes("for some seconds");
      },
    );
    expect(await command(data, ["keys", "list"], settings)).toContain("the database is not available");
    await postgres.start();
    await until("creates work again", async () => (await create()).status === 201);
    await expectCounting(at);
    await expectCounting(await Sandbox.connect(paused.sandboxId, options));
    await at.kill();
    const events = await server.call("GET", `/events/sandboxes/${running.sandboxId}`);
    expect(JSON.stringify(events.body)).toContain("sandbox.lifecycle.killed");
    expectNoPassword(server.pid, [server.output(), refusal]);
    expect(await server.stop()).toBe(0);
  });

  // Short versions are in src/cli/folder-store.test.ts.
  test.skipIf(!LONG)("a start on the wrong database is rejected, and the sandboxes run on", async () => {
    const [data, url] = [folder("own"), await postgres.freshDatabase()];
    const own = { ...settings, SANDLOT_STORE: url };
    const server = await startServer(data, own);
    const sandbox = await Sandbox.create({ ...server.options, timeoutMs: 3_600_000 });
    await counting(sandbox);
    const other = await failureOf(startServer(folder("other"), { ...own, SANDLOT_NODE: "second" }));
    expect(other).toContain("the database is in use by the server first; one database serves one server. FIX:");
    await server.crash();
    const unset = await failureOf(startServer(data, { SANDLOT_READY: "0" }));
    expect(unset).toMatch(
      /are in the Postgres database 127\.0\.0\.1:\d+\/test_\w+, and SANDLOT_STORE is not set\. FIX:/,
    );
    const elsewhere = await failureOf(startServer(data, { ...own, SANDLOT_STORE: await postgres.freshDatabase() }));
    expect(elsewhere).toContain("knows nothing of the sandboxes of");
    await postgres.stop();
    expect(await failureOf(startServer(data, own))).toContain("the database is not available");
    await postgres.start();
    const again = await startServer(data, own);
    await expectCounting(await Sandbox.connect(sandbox.sandboxId, again.options));
    expect(await again.stop()).toBe(0);
  });

  test.skipIf(!LONG)(
    "a frozen database delays requests for a bounded time, and the server recovers by itself",
    async () => {
      const data = folder("frozen");
      const server = await startServer(data, { ...settings, SANDLOT_STORE: await postgres.freshDatabase() });
      const sandbox = await Sandbox.create({ ...server.options, timeoutMs: 3_600_000 });
      await counting(sandbox);
      const create = () => server.call("POST", "/sandboxes", { templateID: "base" });
      await postgres.freeze();
      try {
        expect((await create()).status).toBe(503);
        await expectCounting(sandbox);
        expect((await create()).body.message).toContain("for some seconds");
      } finally {
        await postgres.thaw();
      }
      await until("creates work again", async () => (await create()).status === 201);
      await expectCounting(sandbox);
      expect(await server.stop()).toBe(0);
    },
  );
});

/** The statements of the page, with the password of this test. */
function documentedSetUp(): string[] {
  const page = readFileSync(join(PROJECT, "docs/postgres.md"), "utf8");
  const block = /## Set up[\s\S]*?```sql\n([\s\S]*?)```/.exec(page)?.[1] ?? "";
  return block.replace("'PASSWORD'", `'${PASSWORD}'`).trim().split("\n");
}

/** Only the server's own environment has it. */
function expectNoPassword(serverPid: number, texts: readonly string[]): void {
  const forms = [PASSWORD, encodeURIComponent(PASSWORD)];
  const has = (text: string) => forms.some((form) => text.includes(form));
  for (const text of texts) expect(has(text)).toBe(false);
  const processes = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  const read = (path: string) => {
    try {
      return readFileSync(path, "utf8");
    } catch {
      return "";
    }
  };
  const knowing = processes.filter(
    (pid) => has(read(`/proc/${pid}/cmdline`)) || (Number(pid) !== serverPid && has(read(`/proc/${pid}/environ`))),
  );
  expect(knowing).toEqual([]);
}
