import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { untilTrue } from "../../base/testing/until.ts";
import { Fault } from "../../contract/fault.ts";
import { ControlFixture, type Reply } from "../testing/control-fixture.ts";
import { VOLUME_TOKEN_MS } from "./volume-tokens.ts";
import { VOLUMES_MADE_AT_ONCE } from "./volumes.ts";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

interface VolumeReply {
  volumeID: string;
  name: string;
  token: string;
}

async function make(name: string, rest: Record<string, unknown> = {}, headers = {}): Promise<VolumeReply> {
  const reply = await fixture.call("POST", "/volumes", { name, ...rest }, headers);
  expect(reply.status).toBe(201);
  return reply.body as unknown as VolumeReply;
}

const stat = ({ volumeID, token }: VolumeReply): Promise<Reply> =>
  fixture.call("GET", `/volumecontent/${volumeID}/path?path=x`, undefined, { Authorization: `Bearer ${token}` });

describe("volumes", () => {
  test("are created with the requested or the default size", async () => {
    const one = await make("one");
    await fixture.advance(1);
    const two = await make("two", { sizeMB: 64 });
    expect([...fixture.host.volumes]).toEqual([
      [one.volumeID, 10_240],
      [two.volumeID, 64],
    ]);
    expect((await fixture.call("GET", "/volumes")).body as unknown).toEqual([
      { volumeID: one.volumeID, name: "one" },
      { volumeID: two.volumeID, name: "two" },
    ]);
  });

  test.each([
    [{ name: "a b" }],
    [{ name: "" }],
    [{ name: "ü" }],
    [{}],
    [{ name: "a", sizeMB: 31 }],
    [{ name: "a", sizeMB: 102_401 }],
  ])("%j is rejected, and nothing is created", async (body) => {
    expect((await fixture.call("POST", "/volumes", body)).status).toBe(400);
    expect(fixture.host.volumes.size).toBe(0);
  });

  test("have unique names in the team, and are bounded in number", async () => {
    await make("taken");
    expect((await fixture.call("POST", "/volumes", { name: "taken" })).body.message).toContain('"taken"');
    for (let count = 1; count < 100; count++) await make(`volume-${count}`);
    const reply = await fixture.call("POST", "/volumes", { name: "one-too-many" });
    expect([reply.status, reply.body.message]).toEqual([429, expect.stringContaining("100 volumes")]);
    expect(reply.headers.has("retry-after")).toBe(false);
    await make("taken", {}, { "X-API-Key": await fixture.anotherTeam("others") });
  });

  test("of another team cannot be read, deleted, mounted or opened", async () => {
    const { volumeID, token } = await make("theirs");
    const other = { "X-API-Key": await fixture.anotherTeam("others") };
    for (const method of ["GET", "DELETE"]) {
      expect((await fixture.call(method, `/volumes/${volumeID}`, undefined, other)).status).toBe(404);
    }
    const mounts = { templateID: "base", volumeMounts: [{ name: "theirs", path: "/data" }] };
    const create = await fixture.call("POST", "/sandboxes", mounts, other);
    expect([create.status, create.body.message]).toEqual([400, expect.stringContaining('no volume "theirs"')]);
    const own = await make("own", {}, other);
    expect((await stat({ ...own, token })).status).toBe(403);
    expect((await fixture.call("GET", "/volumes/not-a-uuid")).status).toBe(400);
  });

  test("are created a few at a time, however many are requested at once", async () => {
    const open = Promise.withResolvers<void>();
    let underWay = 0;
    fixture.host.beforeCreateVolume = () => {
      underWay++;
      return open.promise;
    };
    const many = Array.from({ length: 3 * VOLUMES_MADE_AT_ONCE }, (_, nth) => make(`volume-${nth}`));
    await untilTrue(
      async () => (await fixture.call("GET", "/volumes")).status !== 200 || underWay >= VOLUMES_MADE_AT_ONCE,
    );
    // All have sent their request, and each has its turn at the store before this one.
    await fixture.call("GET", "/volumes");
    expect(underWay).toBe(VOLUMES_MADE_AT_ONCE);
    open.resolve();
    await Promise.all(many);
    expect(underWay).toBe(3 * VOLUMES_MADE_AT_ONCE);
  });

  test("that the host could not create do not exist, and their name is free", async () => {
    fixture.host.beforeCreateVolume = () => Promise.reject(new Fault(507, "no room"));
    expect((await fixture.call("POST", "/volumes", { name: "failed" })).status).toBe(507);
    fixture.host.beforeCreateVolume = async () => undefined;
    await fixture.control.settled();
    await make("failed");
    expect(fixture.host.volumes.size).toBe(1);
  });
});

describe("a restart", () => {
  test("removes half-created volumes", async () => {
    await fixture.store.volumes.add({
      id: "5a4d1075-0000-4000-8000-000000000001",
      teamId: fixture.firstRun.teamId,
      name: "half",
      sizeMB: 64,
      createdAt: 0,
      isReady: false,
      deletedAt: null,
    });
    fixture.host.volumes.set("5a4d1075-0000-4000-8000-000000000001", 64);
    await fixture.restart();
    await fixture.control.settled();
    expect(fixture.host.volumes.size).toBe(0);
    await make("half");
  });

  test("completes removals, and retries failed ones", async () => {
    const { volumeID } = await make("leaving");
    let tries = 0;
    fixture.host.beforeRemoveVolume = async () => {
      if (++tries === 1) throw new Error("busy");
    };
    expect((await fixture.call("DELETE", `/volumes/${volumeID}`)).status).toBe(204);
    await fixture.control.settled();
    expect([tries, fixture.host.volumes.size]).toEqual([1, 1]);
    await fixture.restart();
    await fixture.control.settled();
    expect([tries, fixture.host.volumes.size]).toEqual([2, 0]);
    expect(await fixture.store.volumes.unfinished()).toEqual([]);
  });
});

describe("mounts", () => {
  const create = (path = "/data") => fixture.create({ volumeMounts: [{ name: "v", path }] });

  test("reach the host by the volume's id, at create, resume and fork", async () => {
    const { volumeID } = await make("v");
    const id = await create();
    const volumes = [{ volume: volumeID, path: "/data" }];
    expect(fixture.host.requestOf(id)?.volumes).toEqual(volumes);
    await fixture.call("POST", `/sandboxes/${id}/pause`);
    await fixture.call("POST", `/sandboxes/${id}/connect`, { timeout: 60 });
    expect(fixture.host.requestOf(id)?.volumes).toEqual(volumes);
    const fork = (await fixture.call("POST", `/sandboxes/${id}/fork`)).body as unknown as {
      sandbox: { sandboxID: string };
    }[];
    expect(fixture.host.requestOf(fork[0]?.sandbox.sandboxID ?? "")?.volumes).toEqual(volumes);
  });

  test("prevent deletion until the last sandbox and snapshot is gone; the error names them", async () => {
    const { volumeID } = await make("v");
    const id = await create();
    const { snapshotID } = (await fixture.call("POST", `/sandboxes/${id}/snapshots`, { name: "shot" })).body;
    const refused = await fixture.call("DELETE", `/volumes/${volumeID}`);
    expect([refused.status, refused.body.message]).toEqual([409, expect.stringMatching(`sandbox ${id} and snapshot `)]);
    await fixture.call("DELETE", `/sandboxes/${id}`);
    await fixture.control.settled();
    expect((await fixture.call("DELETE", `/volumes/${volumeID}`)).body.message).not.toContain(id);
    const copy = await fixture.create({ templateID: snapshotID });
    expect((await fixture.call("GET", `/sandboxes/${copy}`)).body.volumeMounts).toEqual([{ name: "v", path: "/data" }]);
    await fixture.call("DELETE", `/sandboxes/${copy}`);
    await fixture.call("DELETE", "/templates/shot");
    expect((await fixture.call("DELETE", `/volumes/${volumeID}`)).status).toBe(204);
  });

  test("of a volume that is deleted meanwhile fail the create", async () => {
    const { volumeID } = await make("v");
    fixture.host.beforeCreate = async () => {
      expect((await fixture.call("DELETE", `/volumes/${volumeID}`)).status).toBe(204);
    };
    const reply = await fixture.call("POST", "/sandboxes", {
      templateID: "base",
      volumeMounts: [{ name: "v", path: "/data" }],
    });
    expect([reply.status, reply.body.message]).toEqual([404, expect.stringContaining('volume "v"')]);
    expect(fixture.host.running).toEqual([]);
  });

  test("prevent a template from being public", async () => {
    await make("v");
    const id = await create();
    await fixture.call("POST", `/sandboxes/${id}/snapshots`, { name: "shot" });
    const published = await fixture.call("PATCH", "/templates/shot", { public: true });
    expect([published.status, published.body.message]).toEqual([409, expect.stringContaining("volumes")]);
    const bare = await fixture.create();
    await fixture.call("POST", `/sandboxes/${bare}/snapshots`, { name: "open" });
    expect((await fixture.call("PATCH", "/templates/open", { public: true })).status).toBe(200);
    const into = await fixture.call("POST", `/sandboxes/${id}/snapshots`, { name: "open:v2" });
    expect([into.status, into.body.message]).toEqual([409, expect.stringContaining("public")]);
  });

  test("above the limit of a sandbox are rejected", async () => {
    const volumeMounts = Array.from({ length: 17 }, (_, at) => ({ name: `v${at}`, path: `/data/${at}` }));
    const reply = await fixture.call("POST", "/sandboxes", { templateID: "base", volumeMounts });
    expect([reply.status, reply.body.message]).toEqual([400, expect.stringContaining("at most 16")]);
  });

  test.each([
    ["/mnt/data", undefined],
    ["/home/user/data", undefined],
    ["/usr/local/data", undefined],
    ["/etcetera", undefined],
    ["/.sandlot/bin", "system"],
    ["/etc", "system"],
    ["/etc/ssl", "system"],
    ["/home", "system"],
    ["/dev/shm", "system"],
    ["/data/", "clean"],
    ["//data", "clean"],
    ["/data/./x", "clean"],
    ["/data:x", "characters"],
    ["/da\u0000ta", "characters"],
    ["/da\nta", "characters"],
    [`/${"x".repeat(1024)}`, "1024"],
  ])("at %j: %j", async (path, problem) => {
    await make("v");
    const reply = await fixture.call("POST", "/sandboxes", { templateID: "base", volumeMounts: [{ name: "v", path }] });
    expect(reply.status).toBe(problem === undefined ? 201 : 400);
    if (problem !== undefined) expect(reply.body.message).toContain(problem);
  });
});

describe("tokens", () => {
  test("give access for an hour, while the volume exists", async () => {
    const volume = await make("v");
    expect((await stat(volume)).status).toBe(200);
    await fixture.advance(VOLUME_TOKEN_MS);
    expect((await stat(volume)).body.message).toContain("expired");
    const fresh = (await fixture.call("GET", `/volumes/${volume.volumeID}`)).body as unknown as VolumeReply;
    expect((await stat(fresh)).status).toBe(200);
    await fixture.restart();
    expect((await stat(fresh)).status).toBe(200);
    await fixture.call("DELETE", `/volumes/${volume.volumeID}`);
    expect((await stat(fresh)).status).toBe(404);
  });
});
