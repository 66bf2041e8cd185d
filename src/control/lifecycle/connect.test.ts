/** Connecting to a running sandbox: the timeout's effect for an official client and for other callers. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { ControlFixture } from "../testing/control-fixture.ts";

const DAY = 86_400;
const OFFICIAL = { publisher: "e2b", package_version: "2.51.0" };

let fixture: ControlFixture;
let id: string;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  id = await fixture.create({ timeout: DAY });
});
afterEach(() => fixture[Symbol.asyncDispose]());

const connect = (timeout: number, headers: Record<string, string> = {}) =>
  fixture.call("POST", `/sandboxes/${id}/connect`, { timeout }, headers);

describe("by an official client", () => {
  test("never shortens the timeout", async () => {
    for (const timeout of [300, 0]) {
      expect((await connect(timeout, OFFICIAL)).status).toBe(200);
      expect(await fixture.endOf(id)).toBe(DAY);
    }
    expect(fixture.eventsOf(id)).toEqual(["created"]);
  });

  test("extends the timeout", async () => {
    expect((await connect(2 * DAY, OFFICIAL)).status).toBe(200);
    expect(await fixture.endOf(id)).toBe(2 * DAY);
  });

  test("extends the timeout at most to the team's limit", async () => {
    await fixture.store.people.setLimits(fixture.firstRun.teamId, { runSeconds: DAY + 10 });
    expect((await connect(2 * DAY, OFFICIAL)).status).toBe(400);
    await fixture.advance(20_000);
    expect((await connect(DAY, OFFICIAL)).status).toBe(200);
    expect(await fixture.endOf(id)).toBe(DAY + 10);
  });
});

describe("by any other client", () => {
  test.each([
    {},
    { publisher: "e2b" },
    { publisher: "e2b", package_version: "" },
    { publisher: "e2b", package_version: " " },
    { package_version: "2.51.0" },
    { publisher: "E2B", package_version: "2.51.0" },
    { publisher: "another", package_version: "2.51.0" },
  ])("%j: its end is timeout seconds from now", async (headers) => {
    expect((await connect(300, headers as Record<string, string>)).status).toBe(200);
    expect(await fixture.endOf(id)).toBe(300);
  });

  test("timeout 0 ends it", async () => {
    expect((await connect(0)).status).toBe(200);
    await fixture.advance(0);
    expect(fixture.host.destroyed).toEqual([id]);
  });
});
