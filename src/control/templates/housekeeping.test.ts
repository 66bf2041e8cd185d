/** Housekeeping removes what templates leave behind and keeps everything still in use. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { FakeHost } from "../../host/testing/fake-host.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { storeTemplate } from "../testing/stored-templates.ts";
import { HOUSEKEEPING_EVERY_MS, SUPERSEDED_SNAPSHOT_KEPT_MS } from "./housekeeping.ts";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open(new FakeHost({ images: ["base", "mine", "shared"] }));
  await fixture.control.settled();
});
afterEach(() => fixture[Symbol.asyncDispose]());

/** The next round that comes by itself. */
async function round(): Promise<void> {
  await fixture.idleClock.advance(HOUSEKEEPING_EVERY_MS, () => fixture.control.settled());
  await fixture.control.settled();
}

test("images are kept while a template or a sandbox uses them", async () => {
  await storeTemplate(fixture, "mine", { build: { image: "mine" } });
  await storeTemplate(fixture, "shown", { public: true, build: { image: "shared" } });
  const stranger = { "X-API-Key": await fixture.anotherTeam("strangers") };
  const create = { templateID: "default/shown", timeout: 600 };
  const { sandboxID } = (await fixture.call("POST", "/sandboxes", create, stranger)).body;
  await round();
  expect(fixture.host.keptImages).toEqual(["base", "mine", "shared"]);
  for (const name of ["mine", "shown"]) await fixture.call("DELETE", `/templates/${name}`);
  await fixture.control.settled();
  expect(fixture.host.keptImages).toEqual(["base", "shared"]);
  await fixture.call("POST", `/sandboxes/${sandboxID}/pause`, {}, stranger);
  await round();
  expect(fixture.host.keptImages).toEqual(["base", "shared"]);
  await fixture.call("DELETE", `/sandboxes/${sandboxID}`, undefined, stranger);
  await round();
  expect(fixture.host.keptImages).toEqual(["base"]);
});

test("a snapshot is removed a day after a newer one took its tag, and its sandboxes run on", async () => {
  const id = await fixture.create({ timeout: 2 * SUPERSEDED_SNAPSHOT_KEPT_MS });
  const snap = () => fixture.call("POST", `/sandboxes/${id}/snapshots`, { name: "shot" });
  await snap();
  const template = await fixture.store.templates.byAlias("default", "shot");
  const [first] = await fixture.store.builds.ofTemplate(template?.id ?? "", undefined, 1);
  const copy = await fixture.create({ templateID: "shot", timeout: 2 * SUPERSEDED_SNAPSHOT_KEPT_MS });
  await snap();
  await fixture.advance(SUPERSEDED_SNAPSHOT_KEPT_MS);
  await round();
  expect(fixture.host.checkpoints).toContain(first?.checkpoint ?? "");
  await fixture.create({ templateID: `shot:${first?.id}` });
  await fixture.advance(1);
  await round();
  expect(fixture.host.checkpoints).not.toContain(first?.checkpoint ?? "");
  expect(fixture.host.checkpoints).toHaveLength(1);
  expect((await fixture.call("POST", "/sandboxes", { templateID: `shot:${first?.id}` })).status).toBe(404);
  expect((await fixture.call("POST", "/sandboxes", { templateID: "shot" })).status).toBe(201);
  expect((await fixture.call("POST", `/sandboxes/${copy}/pause`, {})).status).toBe(204);
  expect((await fixture.call("POST", `/sandboxes/${copy}/connect`, { timeout: 60 })).status).toBe(201);
});

test("a round that fails is followed by another", async () => {
  await storeTemplate(fixture, "mine", { build: { image: "mine" } });
  const { collectImages } = fixture.host;
  fixture.host.collectImages = () => Promise.reject(new Error("the disk is away"));
  await round();
  expect(fixture.logLines.some((line) => line.includes("the disk is away"))).toBe(true);
  fixture.host.collectImages = collectImages;
  await round();
  expect(fixture.host.keptImages).toEqual(["base", "mine"]);
});
