/** Housekeeping removes what templates leave behind and keeps everything still in use. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { FakeHost } from "../../host/testing/fake-host.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { storeTemplate } from "../testing/stored-templates.ts";
import { HOUSEKEEPING_EVERY_MS, SUPERSEDED_SNAPSHOT_KEPT_MS } from "./housekeeping.ts";

let f: ControlFixture;
beforeEach(async () => {
  f = await ControlFixture.open(new FakeHost({ images: ["base", "mine", "shared"] }));
  await f.control.settled();
});
afterEach(() => f[Symbol.asyncDispose]());

/** The next round that comes by itself. */
async function round(): Promise<void> {
  await f.idleClock.advance(HOUSEKEEPING_EVERY_MS, () => f.control.settled());
  await f.control.settled();
}

test("images are kept while a template or a sandbox uses them", async () => {
  await storeTemplate(f, "mine", { build: { image: "mine" } });
  await storeTemplate(f, "shown", { public: true, build: { image: "shared" } });
  const stranger = { "X-API-Key": await f.anotherTeam("strangers") };
  const create = { templateID: "default/shown", timeout: 600 };
  const { sandboxID } = (await f.call("POST", "/sandboxes", create, stranger)).body;
  await round();
  expect(f.host.keptImages).toEqual(["base", "mine", "shared"]);
  for (const name of ["mine", "shown"]) await f.call("DELETE", `/templates/${name}`);
  await f.control.settled();
  expect(f.host.keptImages).toEqual(["base", "shared"]);
  await f.call("POST", `/sandboxes/${sandboxID}/pause`, {}, stranger);
  await round();
  expect(f.host.keptImages).toEqual(["base", "shared"]);
  await f.call("DELETE", `/sandboxes/${sandboxID}`, undefined, stranger);
  await round();
  expect(f.host.keptImages).toEqual(["base"]);
});

test("a snapshot is removed a day after a newer one took its tag, and its sandboxes run on", async () => {
  const id = await f.create({ timeout: 2 * SUPERSEDED_SNAPSHOT_KEPT_MS });
  const snap = () => f.call("POST", `/sandboxes/${id}/snapshots`, { name: "shot" });
  await snap();
  const template = await f.store.templates.byAlias("default", "shot");
  const [first] = await f.store.builds.ofTemplate(template?.id ?? "", undefined, 1);
  const copy = await f.create({ templateID: "shot", timeout: 2 * SUPERSEDED_SNAPSHOT_KEPT_MS });
  await snap();
  await f.advance(SUPERSEDED_SNAPSHOT_KEPT_MS);
  await round();
  expect(f.host.checkpoints).toContain(first?.checkpoint ?? "");
  await f.create({ templateID: `shot:${first?.id}` });
  await f.advance(1);
  await round();
  expect(f.host.checkpoints).not.toContain(first?.checkpoint ?? "");
  expect(f.host.checkpoints).toHaveLength(1);
  expect((await f.call("POST", "/sandboxes", { templateID: `shot:${first?.id}` })).status).toBe(404);
  expect((await f.call("POST", "/sandboxes", { templateID: "shot" })).status).toBe(201);
  expect((await f.call("POST", `/sandboxes/${copy}/pause`, {})).status).toBe(204);
  expect((await f.call("POST", `/sandboxes/${copy}/connect`, { timeout: 60 })).status).toBe(201);
});

test("a round that fails is followed by another", async () => {
  await storeTemplate(f, "mine", { build: { image: "mine" } });
  const { collectImages } = f.host;
  f.host.collectImages = () => Promise.reject(new Error("the disk is away"));
  await round();
  expect(f.logLines.some((line) => line.includes("the disk is away"))).toBe(true);
  f.host.collectImages = collectImages;
  await round();
  expect(f.host.keptImages).toEqual(["base", "mine"]);
});
