/** The unmodified JS SDK against this management API. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  AuthenticationError,
  NotFoundError,
  RateLimitError,
  Sandbox,
  type SandboxInfo,
  Secret,
  SecretError,
  SecretNotFoundError,
  Template,
} from "e2b";
import { REQUEST_BURST_SECONDS } from "./budgets/request-rates.ts";
import { ControlFixture } from "./testing/control-fixture.ts";
import { storeBuild, storeTemplate } from "./testing/stored-templates.ts";

let fixture: ControlFixture;
let server: Bun.Server<undefined>;
let connection: { apiKey: string; apiUrl: string };

beforeAll(async () => {
  fixture = await ControlFixture.open();
  server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: (request) => fixture.control.handle(request) });
  connection = { apiKey: fixture.apiKey, apiUrl: server.url.origin };
});
afterAll(async () => {
  await server.stop(true);
  await fixture[Symbol.asyncDispose]();
});

async function listed(query: Record<string, unknown> = {}): Promise<SandboxInfo[]> {
  const paginator = Sandbox.list({ ...connection, ...query });
  const found: SandboxInfo[] = [];
  while (paginator.hasNext) found.push(...(await paginator.nextItems()));
  return found;
}

describe("the JS SDK", () => {
  test("finds templates by name, and assigns, lists and removes their tags", async () => {
    const id = await storeTemplate(fixture, "tagged");
    const { id: buildId } = await storeBuild(fixture, id, { tags: ["v2"] });
    expect(await Template.exists("tagged", connection)).toBe(true);
    expect(await Template.exists("default/tagged", connection)).toBe(true);
    expect(await Template.exists("default/tagged:v2", connection)).toBe(true);
    expect(await Template.exists("tagged:v3", connection)).toBe(false);
    expect(await Template.exists("base", connection)).toBe(true);
    expect(await Template.exists("nothing", connection)).toBe(false);
    const given = await Template.assignTags("default/tagged:v2", ["stable", "production"], connection);
    expect(given).toEqual({ tags: ["stable", "production"], buildId });
    await Template.removeTags("tagged", "production", connection);
    const tags = await Template.getTags("default/tagged", connection);
    expect(tags.map(({ tag }) => tag)).toEqual(["default", "stable", "v2"]);
    expect(tags[1]).toMatchObject({ buildId, createdAt: expect.any(Date) });
    const sandbox = await Sandbox.create("default/tagged:stable", connection);
    expect((await sandbox.getInfo()).templateId).toBe(id);
    await sandbox.kill();
  });

  test("creates, reads, extends, connects to and kills a sandbox", async () => {
    const sandbox = await Sandbox.create("base", {
      ...connection,
      timeoutMs: 30_000,
      metadata: { who: "ann" },
      envs: { A: "b" },
      allowInternetAccess: false,
    });
    const info = await Sandbox.getInfo(sandbox.sandboxId, connection);
    expect(info).toMatchObject({
      sandboxId: sandbox.sandboxId,
      name: "base",
      state: "running",
      metadata: { who: "ann" },
      cpuCount: 2,
      memoryMB: 1024,
      lifecycle: { onTimeout: "kill", autoResume: false },
    });
    expect(info.endAt.getTime() - info.startedAt.getTime()).toBe(30_000);
    expect(fixture.host.requestOf(sandbox.sandboxId)).toMatchObject({ envVars: { A: "b" }, egress: "closed" });

    await Sandbox.setTimeout(sandbox.sandboxId, 90_000, connection);
    expect((await sandbox.getInfo()).endAt.getTime() - info.startedAt.getTime()).toBe(90_000);
    const connected = await Sandbox.connect(sandbox.sandboxId, { ...connection, timeoutMs: 10_000 });
    expect(connected.sandboxId).toBe(sandbox.sandboxId);
    expect((await sandbox.getInfo()).endAt.getTime() - info.startedAt.getTime()).toBe(90_000);

    expect(await Sandbox.kill(sandbox.sandboxId, connection)).toBe(true);
    expect(await Sandbox.kill(sandbox.sandboxId, connection)).toBe(false);
    await expect(Sandbox.getInfo(sandbox.sandboxId, connection)).rejects.toBeInstanceOf(NotFoundError);
    await expect(Sandbox.connect(sandbox.sandboxId, connection)).rejects.toBeInstanceOf(NotFoundError);
  });

  test("lists with filters, over pages", async () => {
    const odd = { "a b": "c&d=é", "p+q": "100%", k: "v" };
    const made: string[] = [];
    for (let nth = 0; nth < 5; nth++) {
      made.unshift((await Sandbox.create({ ...connection, metadata: nth % 2 ? {} : odd })).sandboxId);
      await fixture.advance(1);
    }
    expect((await listed({ limit: 2 })).map((info) => info.sandboxId)).toEqual(made);
    const filtered = await listed({ query: { metadata: odd, state: ["running"] }, limit: 2 });
    expect(filtered.map((info) => info.sandboxId)).toEqual([made[0], made[2], made[4]] as string[]);
    expect(await listed({ query: { metadata: {} } })).toHaveLength(5);
    expect(await listed({ query: { state: ["paused"] } })).toEqual([]);
  });

  test("pauses, resumes by connecting, and reports a sandbox that is already paused", async () => {
    const sandbox = await Sandbox.create("base", { ...connection, timeoutMs: 60_000 });
    const contents = fixture.host.contentsOf(sandbox.sandboxId);
    expect(await sandbox.pause()).toBe(true);
    expect(await Sandbox.pause(sandbox.sandboxId, connection)).toBe(false);
    expect((await sandbox.getInfo()).state).toBe("paused");
    expect((await listed({ query: { state: ["paused"] } })).map((info) => info.sandboxId)).toEqual([sandbox.sandboxId]);
    const again = await Sandbox.connect(sandbox.sandboxId, { ...connection, timeoutMs: 90_000 });
    expect((await again.getInfo()).state).toBe("running");
    expect(fixture.host.contentsOf(sandbox.sandboxId)).toEqual(contents ?? fail());
    await sandbox.pause({ keepMemory: false });
    await Sandbox.connect(sandbox.sandboxId, connection);
    expect(fixture.host.contentsOf(sandbox.sandboxId)?.disk).toBe(contents?.disk ?? -1);
    expect(fixture.host.contentsOf(sandbox.sandboxId)?.boot).not.toBe(contents?.boot ?? -1);
    await sandbox.pause();
    expect(await Sandbox.kill(sandbox.sandboxId, connection)).toBe(true);
  });

  test("has its lifecycle options honoured", async () => {
    const sandbox = await Sandbox.create("base", {
      ...connection,
      timeoutMs: 5_000,
      lifecycle: { onTimeout: "pause", autoResume: true },
    });
    expect((await sandbox.getInfo()).lifecycle).toEqual({ onTimeout: "pause", autoResume: true });
    await fixture.advance(5_000);
    expect((await sandbox.getInfo()).state).toBe("paused");
    await sandbox.kill();
  });

  test("forks", async () => {
    const sandbox = await Sandbox.create("base", { ...connection, timeoutMs: 60_000, metadata: { who: "ann" } });
    const forks = await sandbox.fork({ count: 3, timeoutMs: 30_000 });
    expect(forks).toHaveLength(3);
    const copies = forks.filter((copy): copy is Sandbox => !(copy instanceof Error));
    for (const copy of copies) {
      expect(fixture.host.contentsOf(copy.sandboxId)).toEqual(fixture.host.contentsOf(sandbox.sandboxId) ?? fail());
      expect((await copy.getInfo()).metadata).toEqual({ who: "ann" });
    }
    expect(new Set(copies.map(({ sandboxId }) => sandboxId)).size).toBe(3);
    for (const { sandboxId } of await listed()) await Sandbox.kill(sandboxId, connection);
  });

  test("makes, lists, uses and deletes snapshots", async () => {
    const sandbox = await Sandbox.create("base", { ...connection, timeoutMs: 60_000 });
    const unnamed = await sandbox.createSnapshot();
    await fixture.advance(1);
    const named = await sandbox.createSnapshot({ name: "mine:v1" });
    expect(named.snapshotId).toBe("default/mine:v1");
    const shown = await Sandbox.listSnapshots({ ...connection, sandboxId: sandbox.sandboxId }).nextItems();
    expect(shown.map(({ snapshotId }) => snapshotId)).toEqual([named.snapshotId, unnamed.snapshotId]);
    const copy = await Sandbox.create(unnamed.snapshotId, connection);
    expect(fixture.host.contentsOf(copy.sandboxId)).toEqual(fixture.host.contentsOf(sandbox.sandboxId) ?? fail());
    await copy.kill();
    expect(await Sandbox.deleteSnapshot(unnamed.snapshotId, connection)).toBe(true);
    expect(await Sandbox.deleteSnapshot(named.snapshotId, connection)).toBe(true);
    expect(await Sandbox.deleteSnapshot(named.snapshotId, connection)).toBe(false);
    expect(await Sandbox.listSnapshots(connection).nextItems()).toEqual([]);
  });

  test("sets network rules and public access of a sandbox, and updates the rules", async () => {
    const sandbox = await Sandbox.create("base", {
      ...connection,
      allowInternetAccess: true,
      network: {
        allowOut: ["example.com", "8.8.8.8"],
        denyOut: ({ allTraffic }) => [allTraffic],
        egressProxy: { address: "Proxy.example.com:1080", username: "ann", password: "hunter2" },
        allowPublicTraffic: false,
        maskRequestHost: "localhost",
        httpsPorts: [8443],
      },
    });
    expect(sandbox.trafficAccessToken).toMatch(/^[0-9a-f]{64}$/);
    expect(fixture.find(sandbox.sandboxId)?.access.trafficToken).toBe(sandbox.trafficAccessToken ?? fail());
    const ingress = { allowPublicTraffic: false, maskRequestHost: "localhost", httpsPorts: [8443] };
    expect((await sandbox.getInfo()).network).toMatchObject({
      ...ingress,
      allowOut: ["example.com", "8.8.8.8"],
      denyOut: ["0.0.0.0/0"],
      egressProxy: { address: "proxy.example.com:1080", username: "ann" },
    });
    const policy = { allowRanges: ["8.8.8.8/32"], allowNames: ["example.com"], denyRanges: ["0.0.0.0/0"] };
    const credentials = { username: "ann", password: "hunter2" };
    expect(fixture.host.requestOf(sandbox.sandboxId)?.egress).toEqual({
      ...policy,
      proxy: { host: "proxy.example.com", port: 1080, credentials },
    });

    await sandbox.updateNetwork({ allowOut: ["1.1.1.1"], allowInternetAccess: false });
    const info = await sandbox.getInfo();
    expect(info).toMatchObject({ allowInternetAccess: false, network: { ...ingress, allowOut: ["1.1.1.1"] } });
    expect([info.network?.denyOut, info.network?.egressProxy]).toEqual([undefined, undefined]);
    await Sandbox.updateNetwork(sandbox.sandboxId, {}, connection);
    expect(fixture.host.requestOf(sandbox.sandboxId)?.egress).toBe("closed");
    const connected = await Sandbox.connect(sandbox.sandboxId, connection);
    expect(connected.trafficAccessToken).toBe(sandbox.trafficAccessToken ?? fail());
    const [copy] = await sandbox.fork();
    if (!(copy instanceof Sandbox)) throw copy;
    expect(copy.trafficAccessToken).toMatch(/^[0-9a-f]{64}$/);
    expect(copy.trafficAccessToken).not.toBe(sandbox.trafficAccessToken);
    expect(fixture.host.requestOf(copy.sandboxId)?.egress).toBe("closed");

    await sandbox.pause();
    await expect(sandbox.updateNetwork({})).rejects.toThrow("is paused");
    for (const { sandboxId } of await listed()) await Sandbox.kill(sandboxId, connection);
    await expect(sandbox.updateNetwork({})).rejects.toBeInstanceOf(NotFoundError);
    const unruly = { network: { allowOut: ["example.com"] } };
    await expect(Sandbox.create("base", { ...connection, ...unruly })).rejects.toThrow('needs "0.0.0.0/0" in denyOut');
  });

  test("makes, changes, lists and destroys secrets, and sets headers with them", async () => {
    const made = await Secret.create("Open_AI", "planted-1", { ...connection, metadata: { owner: "ann" } });
    expect(made).toEqual({
      secretId: expect.stringMatching(/^sec_/),
      name: "open_ai",
      version: 1,
      metadata: { owner: "ann" },
      createdAt: expect.any(Date),
      updatedAt: expect.any(Date),
    });
    await expect(Secret.create("open_ai", "x", connection)).rejects.toBeInstanceOf(SecretError);
    expect(await Secret.update("OPEN_AI", "planted-2", connection)).toMatchObject({
      version: 2,
      metadata: { owner: "ann" },
    });
    expect((await Secret.update(made.secretId, "planted-3", { ...connection, metadata: {} })).metadata).toEqual({});
    for (const name of ["b", "c"]) await Secret.create(name, "x", connection);
    const pages = Secret.list({ ...connection, limit: 2 });
    const names: string[] = [];
    while (pages.hasNext) names.push(...(await pages.nextItems()).map(({ name }) => name));
    expect(names.toSorted()).toEqual(["b", "c", "open_ai"]);

    const sandbox = await Sandbox.create("base", {
      ...connection,
      network: {
        allowOut: ({ rules }) => [...rules.keys()],
        denyOut: ({ allTraffic }) => [allTraffic],
        rules: {
          "Api.Example.com": [{ transform: { headers: { Authorization: `Bearer ${Secret.fill("open_ai")}` } } }],
        },
      },
    });
    const shown = {
      "api.example.com": [{ transform: { headers: { Authorization: `Bearer \${e2b.secrets.open_ai}` } } }],
    };
    expect((await sandbox.getInfo()).network?.rules).toEqual(shown);
    const ask = () => fixture.host.requestRule(sandbox.sandboxId, "api.example.com", "api.example.com");
    expect(await ask()).toEqual({ headers: [["Authorization", "Bearer planted-3"]] });
    await sandbox.updateNetwork({ rules: new Map([["b.test", [{ transform: { headers: { A: "b" } } }]]]) });
    expect((await sandbox.getInfo()).network?.rules).toEqual({ "b.test": [{ transform: { headers: { A: "b" } } }] });
    await sandbox.kill();

    expect(await Secret.exists("open_ai", connection)).toBe(true);
    expect(await Secret.destroy("open_ai", connection)).toBe(true);
    expect(await Secret.destroy("open_ai", connection)).toBe(false);
    expect(await Secret.exists("open_ai", connection)).toBe(false);
    await expect(Secret.getInfo("open_ai", connection)).rejects.toBeInstanceOf(SecretNotFoundError);
    await expect(Secret.update("open_ai", "x", connection)).rejects.toBeInstanceOf(SecretNotFoundError);
  });

  test("throws errors with the server's message", async () => {
    await expect(Sandbox.create("unknown", connection)).rejects.toThrow('template "unknown" does not exist');
    const stranger = { ...connection, apiKey: `e2b_${"0".repeat(40)}` };
    await expect(Sandbox.create("base", stranger)).rejects.toBeInstanceOf(AuthenticationError);
  });

  test("throws RateLimitError for too many requests, and retries after Retry-After", async () => {
    await fixture.store.people.setLimits(fixture.firstRun.teamId, { changes: 1 });
    const killed = (retries: number) => Sandbox.kill("iabsent", { ...connection, retries });
    for (let sent = 0; sent < REQUEST_BURST_SECONDS; sent++) expect(await killed(0)).toBe(false);
    await expect(killed(0)).rejects.toThrow(RateLimitError);
    const refusals = () => fixture.logLines.filter((line) => line.includes('"status":429')).length;
    const before = refusals();
    const later = killed(3);
    await fixture.until(() => refusals() > before);
    await fixture.advance(1_000);
    expect(await later).toBe(false);
    await fixture.store.people.setLimits(fixture.firstRun.teamId, {});
  });
});

function fail(): never {
  throw new Error("the host does not know its sandbox");
}
