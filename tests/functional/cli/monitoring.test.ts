/** What the operator of a running server sees of it. */
import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { ALL_TRAFFIC, Sandbox, Template } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { adminCall } from "../../../src/cli/admin-client.ts";
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { SITES } from "../../../src/host/testing/outer-network.ts";
import { attempt } from "../../../src/system/command.ts";
import { exchange, giveProbes } from "../../support/egress/probing.ts";
import { LocalTerminal } from "../../support/programs/local-terminal.ts";
import { serverOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";

const MAIN = join(import.meta.dir, "../../../src/cli/main.ts");
const PAUSES = 'sandlot_requests_total{route="POST /sandboxes/{sandboxID}/pause",status="204"}';
/** Of its own: an edge may report what another file did on its server a second later. */
const server = serverOfFile("monitoring", { SANDLOT_READY: "1", SANDLOT_READY_MAX: "1" });

async function sandlot(...words: string[]): Promise<string> {
  const env = serverEnv(server().dataFolder);
  const { exitCode, stdout, stderr } = await attempt([process.execPath, MAIN, ...words], { env, timeoutMs: 240_000 });
  expect({ stderr, exitCode }).toEqual({ stderr: "", exitCode: 0 });
  return stdout;
}

/** Sum of all series with this beginning. */
function total(metrics: string, beginning: string): number {
  const lines = metrics.split("\n").filter((line) => line.startsWith(beginning));
  return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

test("sandlot metrics counts creates, pauses, resumes, forks and requests", async () => {
  const before = await sandlot("metrics");
  const sandbox = await Sandbox.create(server().options);
  await sandbox.commands.run("true");
  const [copy] = await sandbox.fork({ count: 1, timeoutMs: 300_000 });
  await sandbox.pause();
  await sandbox.connect();
  // The edge reports once a second.
  const starts = "sandlot_command_start_seconds_count";
  let after = before;
  const isReported = async () => {
    after = await sandlot("metrics");
    return total(after, starts) > total(before, starts) && total(after, PAUSES) > total(before, PAUSES);
  };
  await until("the edge has reported", isReported);
  const grown = (beginning: string) => total(after, beginning) - total(before, beginning);
  expect(grown("sandlot_create_seconds_count")).toBe(2);
  expect(grown('sandlot_create_seconds_count{origin="restore"}')).toBe(1);
  expect(grown('sandlot_edge_requests_total{class="command"}')).toBe(1);
  for (const operation of ["fork", "pause", "resume"]) {
    expect(grown(`sandlot_operation_seconds_count{operation="${operation}"}`)).toBe(1);
  }
  expect(grown(PAUSES)).toBe(1);
  expect(grown("sandlot_store_seconds_count")).toBeGreaterThan(4);
  expect(grown('sandlot_sandboxes{state="running"}')).toBe(2);
  expect(grown("sandlot_memory_promised_bytes")).toBe(2 * 1024 ** 3);
  await Promise.all([sandbox.kill(), copy instanceof Sandbox && copy.kill()]);
});

test("sandlot metrics counts ready sandboxes, wakes, builds, failures, and decisions about names", async () => {
  const { options, url, dataFolder, pid } = server();
  let after = "";
  const isReady = async () => total(await sandlot("metrics"), "sandlot_ready_pool_ready") > 0;
  await until("a sandbox is ready", isReady);
  const before = await sandlot("metrics");
  const grown = (beginning: string) => total(after, beginning) - total(before, beginning);

  const asleep = await Sandbox.create({ ...options, lifecycle: { onTimeout: "pause", autoResume: true } });
  await asleep.pause();
  // The port has no listener, which only a running sandbox can report.
  const headers = { "E2b-Sandbox-Id": asleep.sandboxId, "E2b-Sandbox-Port": "8000" };
  expect((await fetch(url, { headers })).status).toBe(502);

  const template = (command: string) => Template().fromTemplate("base").runCmd(command);
  await Template.build(template("true"), "counted", options);
  await expect(Template.build(template("false"), "counted", options)).rejects.toThrow();

  const broken = await Sandbox.create(options);
  await broken.pause();
  const checkpoints = `/proc/${pid}/root${dataFolder}/disks/checkpoints`;
  for (const name of readdirSync(checkpoints)) rmSync(join(checkpoints, name, "disk.img"), { force: true });
  await expect(broken.connect()).rejects.toThrow();
  await broken.kill();

  const network = { allowOut: ["allowed.test"], denyOut: [ALL_TRAFFIC] };
  const ruled = await Sandbox.create({ ...options, network });
  await giveProbes(ruled);
  const visit = (name: string) => exchange(ruled, [{ address: SITES["allowed.test"], hosts: [name] }]);
  expect((await visit("allowed.test")).flat().join()).toContain("@");
  expect((await visit("other.test")).flat().join()).not.toContain("@");
  const asked = "getent hosts allowed.test > /dev/null && echo answered; getent hosts other.test || echo refused";
  expect((await ruled.commands.run(asked)).stdout).toBe("answered\nrefused\n");

  // The relay reports once a second.
  const isReported = async () => {
    after = await sandlot("metrics");
    return grown('sandlot_relay_connections_total{decision="forbidden"}') > 0;
  };
  await until("the relay has reported", isReported);
  expect(grown('sandlot_relay_connections_total{decision="allowed"}')).toBeGreaterThan(0);
  for (const decision of ["allowed", "forbidden"]) {
    expect(grown(`sandlot_dns_queries_total{decision="${decision}"}`)).toBeGreaterThan(0);
  }
  expect(grown('sandlot_create_seconds_count{origin="ready"}')).toBeGreaterThan(0);
  expect(grown('sandlot_operation_seconds_count{operation="wake"}')).toBe(1);
  for (const outcome of ["ready", "failed"]) {
    expect(grown(`sandlot_build_seconds_count{outcome="${outcome}"}`)).toBe(1);
  }
  expect(grown('sandlot_operation_failures_total{operation="resume"')).toBeGreaterThan(0);
  await Promise.all([asleep.kill(), ruled.kill()]);
});

describe("sandlot top", () => {
  test("prints one table where there is no terminal", async () => {
    const sandbox = await Sandbox.create(server().options);
    const lines = (await sandlot("top", "--filter", sandbox.sandboxId)).trim().split("\n");
    expect(lines.at(-1)).toMatch(new RegExp(`^${sandbox.sandboxId} +base +default +running +\\d+s +\\d+\\.\\d `));
    await sandbox.kill();
  });

  test("on a terminal pauses and kills the marked sandbox", async () => {
    const { sandboxId } = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
    const env = serverEnv(server().dataFolder);
    using terminal = new LocalTerminal({ argv: [process.execPath, MAIN, "top", "--filter", sandboxId], env });
    await terminal.read(new RegExp(`${sandboxId} .*running`));
    terminal.type("p");
    await terminal.read(new RegExp(`${sandboxId} is paused`));
    expect((await Sandbox.getInfo(sandboxId, server().options)).state).toBe("paused");
    terminal.type("x");
    await terminal.read(/kill i\w+\? y: yes/);
    terminal.type("y");
    await terminal.read(new RegExp(`${sandboxId} is killed`));
    await expect(Sandbox.getInfo(sandboxId, server().options)).rejects.toThrow();
    terminal.type("q");
    expect(await terminal.exited).toBe(0);
  });
});

test("sandlot logs shows requests of the running server, by their id", async () => {
  const response = await fetch(`${server().url}/sandboxes`, {
    headers: { "X-API-Key": server().options.apiKey, "X-Request-Id": "chosen-by-a-client" },
  });
  expect(response.headers.get("x-request-id")).toBe("chosen-by-a-client");
  const shown = await sandlot("logs", "--request", "chosen-by-a-client");
  expect(shown).toMatch(
    /^[-\d]+ [:.\d]+ INFO {2}request request=chosen-by-a-client method=GET path=\/sandboxes .*status=200/,
  );
});

describe("sandlot support", () => {
  /** Values without any form that says secret: only their place in the store does. */
  const planted = {
    webhook: "Hq7x9Zk2planted",
    proxy: "Pq7x9Zk2planted",
    sandboxVariable: "Sq7x9Zk2planted",
    templateVariable: "Tq7x9Zk2planted",
    /** The name of its variable is harmless; the value looks like a key. */
    likelyKey: "Lq7x9Zk2planted",
  };
  /** What a client wrote into a path, where only the form says secret. */
  const written = { path: "/unknown/password=Wq7x9Zk2planted", secret: "Wq7x9Zk2planted" };
  const folder = mkdtempSync("/tmp/sandlot-bundle-");
  afterAll(() => rmSync(folder, { recursive: true }));

  async function ask(method: string, path: string, body: object, status: number) {
    const reply = await server().call(method, path, body);
    expect([path, reply.status]).toEqual([path, status]);
    return reply.body;
  }

  /** Stores every secret, and returns all of them with those that the server made. */
  async function plant(): Promise<{ sandboxId: string; secrets: string[] }> {
    const { apiKey } = server().options;
    await ask(
      "POST",
      "/events/webhooks",
      {
        name: "hook",
        url: "https://93.184.216.34/",
        events: ["sandbox.lifecycle.resumed"],
        signatureSecret: planted.webhook,
      },
      201,
    );
    const template = Template().fromTemplate("base").setEnvs({ SERVICE_TOKEN: planted.templateVariable });
    await Template.build(template, "planted", server().options);
    const egressProxy = { address: "93.184.216.34:1080", username: "u", password: planted.proxy };
    const envVars = { DB_PASSWORD: planted.sandboxVariable, HARMLESS: planted.likelyKey };
    const network = { egressProxy, allowPublicTraffic: false };
    const { sandboxID, envdAccessToken, trafficAccessToken } = await ask(
      "POST",
      "/v2/sandboxes",
      { templateID: "planted", envVars, network, secure: true },
      201,
    );
    const registry = { type: "registry", username: "u", password: "Rq7x9Zk2planted" };
    await ask("POST", "/v3/templates?token=Qq7x9Zk2planted", { fromImageRegistry: registry }, 400);
    const logged = [...Object.values(planted), envdAccessToken, trafficAccessToken];
    for (const secret of logged) await ask("POST", `/unknown/${secret}`, {}, 404);
    await ask("POST", written.path, {}, 404);
    const log = await (await adminCall({ dataFolder: server().dataFolder }, "GET /logs")).text();
    expect([...logged, written.secret].filter((secret) => !log.includes(secret))).toEqual([]);
    const neverLogged = [registry.password, "Qq7x9Zk2planted", apiKey, apiKey.slice(-8)];
    return { sandboxId: sandboxID, secrets: [...logged, written.secret, ...neverLogged] };
  }

  test("writes a bundle for root only, without secrets of tenants and operators, which the log has", async () => {
    const { sandboxId, secrets } = await plant();
    const file = join(folder, "bundle.tar.gz");
    await sandlot("support", file, ...(LONG ? [] : ["--no-doctor"]));
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const { exitCode } = await attempt(["tar", "-xzf", file, "-C", folder, "--strip-components=1"]);
    expect(exitCode).toBe(0);
    const text = (part: string) => readFileSync(join(folder, part), "utf8");
    if (LONG) expect(text("doctor.txt")).toContain("ok");
    expect(JSON.parse(text("status.json"))).toMatchObject({ pid: server().pid });
    expect(JSON.parse(text("settings.json"))).toMatchObject({
      of: "the running server",
      settings: { SANDLOT_DATA: { value: server().dataFolder, isSet: true } },
    });
    expect(text("sandboxes.json")).toContain(sandboxId);
    expect(text("metrics.txt")).toContain("sandlot_sandboxes");
    expect(text("log.ndjson")).toContain('"event":"request"');
    expect(text("log.ndjson")).toContain('"path":"/unknown/[removed]"');
    for (const part of readdirSync(folder).filter((name) => name !== "bundle.tar.gz")) {
      expect([part, secrets.filter((secret) => text(part).includes(secret))]).toEqual([part, []]);
    }
  });
});
