import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { ControlFixture } from "../testing/control-fixture.ts";
import { writePageToken } from "./page-token.ts";
import { positionLine, readPosition } from "./sandbox-list.ts";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

async function ids(path: string): Promise<string[]> {
  const reply = await fixture.call("GET", path);
  expect(reply.status).toBe(200);
  return reply.body.map((sandbox) => sandbox.sandboxID);
}

/** Follows X-Next-Token to the end. */
async function allPages(query: string): Promise<{ ids: string[]; pages: number }> {
  const found: string[] = [];
  let token: string | null = "";
  for (let pages = 1; ; pages++) {
    const next = token ? `&nextToken=${encodeURIComponent(token)}` : "";
    const reply = await fixture.call("GET", `/v2/sandboxes?${query}${next}`);
    expect(reply.status).toBe(200);
    found.push(...reply.body.map((sandbox) => sandbox.sandboxID));
    token = reply.headers.get("x-next-token");
    if (token === null) return { ids: found, pages };
  }
}

describe("lists", () => {
  test("an entry has every documented field, and no token", async () => {
    const id = await fixture.create({ metadata: { a: "b" }, secure: true });
    for (const path of ["/sandboxes", "/v2/sandboxes"]) {
      const [entry] = (await fixture.call("GET", path)).body;
      expect(entry).toMatchObject({ sandboxID: id, state: "running", metadata: { a: "b" }, volumeMounts: [] });
      expect(entry).not.toHaveProperty("envdAccessToken");
    }
  });

  test("newest first; ascending is the exact mirror; pages neither lose nor repeat", async () => {
    const made: string[] = [];
    for (let nth = 0; nth < 7; nth++) {
      made.push(await fixture.create());
      // Three share one millisecond.
      if (nth < 2 || nth > 4) await fixture.advance(1);
    }
    const tied = made.slice(2, 5).sort();
    const newestFirst = [made[6], made[5], ...tied, made[1], made[0]] as string[];
    expect(await ids("/sandboxes")).toEqual(newestFirst);
    for (const limit of [1, 2, 3, 7, 100]) {
      expect(await allPages(`limit=${limit}`)).toEqual({ ids: newestFirst, pages: Math.ceil(7 / limit) });
      expect((await allPages(`limit=${limit}&order=asc`)).ids).toEqual(newestFirst.toReversed());
    }
  });

  test("a page keeps its position while sandboxes are created and killed", async () => {
    const a = await fixture.create();
    await fixture.advance(1);
    const b = await fixture.create();
    await fixture.advance(1);
    const c = await fixture.create();
    const first = await fixture.call("GET", "/v2/sandboxes?limit=2");
    expect(first.body.map((sandbox) => sandbox.sandboxID)).toEqual([c, b]);
    await fixture.call("DELETE", `/sandboxes/${b}`);
    await fixture.advance(1);
    await fixture.create();
    expect(await ids(`/v2/sandboxes?limit=2&nextToken=${first.headers.get("x-next-token")}`)).toEqual([a]);
  });

  test("X-Total-Running counts all running matches on every page, if running ones were requested", async () => {
    for (const team of ["red", "red", "blue"]) await fixture.create({ metadata: { team } });
    const total = async (query: string) =>
      (await fixture.call("GET", `/v2/sandboxes?${query}`)).headers.get("x-total-running");
    expect(await total("limit=1")).toBe("3");
    expect(await total("limit=1&metadata=team%3Dred")).toBe("2");
    expect(await total("state=running")).toBe("3");
    expect(await total("template=unknown")).toBe("0");
    expect(await total("state=paused")).toBeNull();
  });

  test("metadata filters as the JS SDK encodes them, with paging", async () => {
    const wanted: string[] = [];
    for (let nth = 0; nth < 5; nth++) {
      wanted.unshift(await fixture.create({ metadata: { "a b": "c&d=é", k: "v", nth: String(nth) } }));
      await fixture.advance(1);
      await fixture.create({ metadata: { "a b": "c&d=é" } });
      await fixture.create();
      await fixture.advance(1);
    }
    const filter = "metadata=a%252520b%3Dc%252526d%25253D%2525C3%2525A9%26k%3Dv";
    expect(await ids(`/sandboxes?${filter}`)).toEqual(wanted);
    expect(await allPages(`${filter}&limit=2`)).toEqual({ ids: wanted, pages: 3 });
    expect(await ids("/v2/sandboxes?metadata=")).toHaveLength(15);
  });

  test("a metadata filter reads through more rows than fit one batch", async () => {
    const rare = await fixture.create({ metadata: { rare: "yes" } });
    const row = await fixture.store.sandboxes.byId(rare);
    await fixture.store.transaction(async (tables) => {
      for (let nth = 0; row && nth < 1_100; nth++) {
        await tables.sandboxes.add({ ...row, id: `icopy${nth}`, metadata: {}, startedAt: row.startedAt + nth });
      }
    });
    expect(await ids("/v2/sandboxes?metadata=rare%3Dyes")).toEqual([rare]);
    expect(await ids("/sandboxes")).toHaveLength(1_101);
  });

  test("startedAfter is inclusive, to the microsecond, in any zone", async () => {
    const early = await fixture.create();
    await fixture.advance(1_000);
    const late = await fixture.create();
    expect(await ids("/v2/sandboxes?startedAfter=2027-01-15T08:00:00Z")).toEqual([late, early]);
    expect(await ids("/v2/sandboxes?startedAfter=2027-01-15T08:00:00.000001Z")).toEqual([late]);
    expect(await ids("/v2/sandboxes?startedAfter=2027-01-15T10:00:01.000%2B02:00")).toEqual([late]);
    expect(await ids("/v2/sandboxes?startedAfter=2027-01-15T10:00:01+02:00")).toEqual([late]);
    expect(await ids("/v2/sandboxes?startedAfter=2027-01-15T08:00:01.001Z")).toEqual([]);
  });

  test("template takes an id or a name; an unknown one matches nothing", async () => {
    const id = await fixture.create();
    const template = (await fixture.call("GET", `/sandboxes/${id}`)).body.templateID;
    expect(await ids(`/v2/sandboxes?template=${template}`)).toEqual([id]);
    expect(await ids("/v2/sandboxes?template=BASE")).toEqual([id]);
    expect(await ids("/v2/sandboxes?template=other")).toEqual([]);
    expect(await ids("/v2/sandboxes?template=default%2Fbase")).toEqual([]);
  });

  test("state lists are comma-separated", async () => {
    const id = await fixture.create();
    expect(await ids("/v2/sandboxes?state=running,paused")).toEqual([id]);
    expect(await ids("/v2/sandboxes?state=")).toEqual([id]);
    expect(await ids("/v2/sandboxes?state=paused")).toEqual([]);
  });

  test.each([
    "limit=0",
    "limit=101",
    "limit=ten",
    "limit=1.5",
    "order=up",
    "state=killing",
    "state=running,gone",
    "startedAfter=yesterday",
    "startedAfter=2027-01-15",
    "template=base%3Adefault",
    "template=a%20b",
    "metadata=x",
    "nextToken=rubbish",
  ])("%s is refused", async (query) => {
    expect((await fixture.call("GET", `/v2/sandboxes?${query}`)).status).toBe(400);
  });

  test.each(["asc", "desc"] as const)(
    "a token of order %s has the position of its page, in the original format",
    (order) => {
      const position = { startedAt: 1_800_000_000_123, id: "iabc" };
      const line = `2027-01-15T08:00:00.123Z__iabc${order === "asc" ? "__asc" : ""}`;
      expect(positionLine(position, order)).toBe(line);
      expect(readPosition(Buffer.from(line).toString("base64url"), order)).toEqual(position);
    },
  );

  test.each(["2027-13-01T00:00:00.000Z__iabc", "soon__iabc", "2027-01-01T00:00:00.000Z__iabc__desc"])(
    "a token that contains %s is rejected",
    (line) => {
      expect(() => readPosition(writePageToken(line), "desc")).toThrow("is not a token of this list");
    },
  );

  test("a token of the other order is refused", async () => {
    await fixture.create();
    await fixture.create();
    const token = (await fixture.call("GET", "/v2/sandboxes?limit=1")).headers.get("x-next-token");
    expect((await fixture.call("GET", `/v2/sandboxes?order=asc&nextToken=${token}`)).status).toBe(400);
  });
});
