/** A caller that guesses template ids does not learn which ones other teams have. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import type { Template } from "../../store/templates.ts";
import { createAccessToken } from "../access/keys.ts";
import { ControlFixture } from "../testing/control-fixture.ts";

const ABSENT = "absent00000000000000";

let fixture: ControlFixture;
let sandboxId: string;
/** Private, of the first team. */
let theirs: Template;
let stranger: Record<string, string>;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  sandboxId = await fixture.create({ timeout: 600 });
  const { body } = await fixture.call("POST", `/sandboxes/${sandboxId}/snapshots`, {});
  const made = await fixture.store.templates.byId(String(body.snapshotID).replace(":default", ""));
  if (made === undefined) throw new Error(`no template of ${JSON.stringify(body)}`);
  theirs = made;
  stranger = { "X-API-Key": await fixture.anotherTeam("strangers") };
});
afterEach(() => fixture[Symbol.asyncDispose]());

const remove = (id: string) => fixture.call("DELETE", `/templates/${id}`, undefined, stranger);

test("DELETE of another team's id, public or not, gets the response for an unknown id", async () => {
  const shown = { ...theirs, id: "public00000000000000", public: true };
  await fixture.store.templates.add(shown);
  for (const request of [theirs.id, shown.id, ABSENT]) {
    const { status, body } = await remove(request);
    expect([status, body.message]).toEqual([404, `template "${request}" does not exist`]);
  }
  expect(await fixture.store.templates.byId(theirs.id)).toEqual(theirs);
  expect(await fixture.store.templates.byId(shown.id)).toEqual(shown);
});

test("DELETE of another team's name is 403 if it is public, otherwise as for an unknown name", async () => {
  const statuses = [];
  for (const isPublic of [true, false]) {
    const name = `common-${isPublic}`;
    await fixture.store.templates.add({ ...theirs, id: name, public: isPublic });
    await fixture.store.templates.addAlias("", name, name);
    statuses.push((await remove(name)).status);
  }
  expect(statuses).toEqual([403, 404]);
});

test("every call rejects a name in the form of a template id, known or not", async () => {
  const { sandboxID } = (await fixture.call("POST", "/sandboxes", { templateID: "base" }, stranger)).body;
  const own = (await fixture.call("POST", "/v3/templates", { name: "own" }, stranger)).body.templateID;
  const { secret } = await createAccessToken(fixture, { userId: fixture.firstRun.userId, name: "t" });
  const bearer = { Authorization: `Bearer ${secret}` };
  const dockerfile = "FROM debian:13";
  for (const id of [theirs.id, ABSENT]) {
    for (const name of [id, id.toUpperCase(), `${id}:v1`, `strangers/${id}`, ` strangers/${id}:v1 `]) {
      const replies = await Promise.all([
        fixture.call("POST", `/sandboxes/${sandboxID}/snapshots`, { name }, stranger),
        fixture.call("POST", "/v3/templates", { name }, stranger),
        fixture.call("POST", "/v3/templates", { alias: name, tags: ["v2"] }, stranger),
        fixture.call("POST", "/v2/templates", { alias: name }, stranger),
      ]);
      for (const { status, body } of replies) {
        expect([status, body.message]).toEqual([400, expect.stringContaining(`"${id}" has the form of a template id`)]);
      }
    }
    for (const path of ["/templates", `/templates/${theirs.id}`]) {
      const { status, body } = await fixture.call("POST", path, { alias: id, dockerfile }, bearer);
      expect([path, status, body.message]).toEqual([path, 400, expect.stringContaining("form of a template id")]);
    }
  }
  const names = (await fixture.call("GET", "/templates", undefined, stranger)).body as unknown as {
    templateID: string;
  }[];
  expect(names.map(({ templateID }) => templateID)).toEqual([own]);
  for (const name of [ABSENT.slice(1), `${ABSENT}0`, `a-${ABSENT}`.slice(0, 20)]) {
    expect((await fixture.call("POST", "/v3/templates", { name }, stranger)).status).toBe(202);
  }
});
