/** Who tries ids of templates does not learn which of them other teams have. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import type { Template } from "../../store/templates.ts";
import { ControlFixture } from "../testing/control-fixture.ts";

const ABSENT = "absent00000000000000";

let f: ControlFixture;
let sandboxId: string;
/** Private, of the first team. */
let theirs: Template;
let stranger: Record<string, string>;
beforeEach(async () => {
  f = await ControlFixture.open();
  sandboxId = await f.create({ timeout: 600 });
  const { body } = await f.call("POST", `/sandboxes/${sandboxId}/snapshots`, {});
  const made = await f.store.templates.byId(String(body.snapshotID).replace(":default", ""));
  if (made === undefined) throw new Error(`no template of ${JSON.stringify(body)}`);
  theirs = made;
  stranger = { "X-API-Key": await f.anotherTeam("strangers") };
});
afterEach(() => f[Symbol.asyncDispose]());

const remove = (id: string) => f.call("DELETE", `/templates/${id}`, undefined, stranger);

test("DELETE of an id of another team, public or not, is answered as of one that never was", async () => {
  const shown = { ...theirs, id: "public00000000000000", public: true };
  await f.store.templates.add(shown);
  for (const asked of [theirs.id, shown.id, ABSENT]) {
    const { status, body } = await remove(asked);
    expect([status, body.message]).toEqual([404, `template "${asked}" does not exist`]);
  }
  expect(await f.store.templates.byId(theirs.id)).toEqual(theirs);
  expect(await f.store.templates.byId(shown.id)).toEqual(shown);
});

test("DELETE of a common name of another team is 403 when it is public, else as of one that never was", async () => {
  const statuses = [];
  for (const isPublic of [true, false]) {
    const name = `common-${isPublic}`;
    await f.store.templates.add({ ...theirs, id: name, public: isPublic });
    await f.store.templates.addAlias("", name, name);
    statuses.push((await remove(name)).status);
  }
  expect(statuses).toEqual([403, 404]);
});

test("a snapshot may be named as an id of another team, as any other; each team means its own by it", async () => {
  const refused = await f.call("POST", `/sandboxes/${sandboxId}/snapshots`, { name: theirs.id });
  expect([refused.status, refused.body.message]).toEqual([409, expect.stringContaining("id of a template")]);
  const { sandboxID } = (await f.call("POST", "/sandboxes", { templateID: "base" }, stranger)).body;
  for (const name of [theirs.id, ABSENT]) {
    const { status, body } = await f.call("POST", `/sandboxes/${sandboxID}/snapshots`, { name }, stranger);
    expect([status, body.snapshotID]).toEqual([201, `strangers/${name}:default`]);
  }
  const templateOf = async (headers?: Record<string, string>) =>
    (await f.call("POST", "/sandboxes", { templateID: theirs.id }, headers)).body.templateID;
  expect(await templateOf()).toBe(theirs.id);
  expect(await templateOf(stranger)).not.toBe(theirs.id);
});
