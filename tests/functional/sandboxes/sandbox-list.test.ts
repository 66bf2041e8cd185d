/** Finding one's sandboxes again: filters, order and pages. */
import { beforeAll, expect, test } from "bun:test";
import { Sandbox, type SandboxInfo, type SandboxListOpts } from "e2b";
import { sharedServer } from "../../support/shared-server.ts";
import { refusalOf } from "../../support/until.ts";

const server = sharedServer();
const STRANGE = { "a b": "c&d=é+100%", "k/ü": "" };
const sandboxes: Sandbox[] = [];

beforeAll(async () => {
  for (const metadata of [
    { team: "red", role: "a" },
    { team: "red", role: "b" },
    { team: "blue", ...STRANGE },
    undefined,
  ]) {
    sandboxes.push(await Sandbox.create({ ...server().options, ...(metadata === undefined ? {} : { metadata }) }));
  }
});

async function pages(options: SandboxListOpts): Promise<SandboxInfo[][]> {
  const paginator = Sandbox.list({ ...server().options, ...options });
  const found: SandboxInfo[][] = [];
  while (paginator.hasNext) {
    found.push(await paginator.nextItems());
    if (found.length > 100) throw new Error("the pages do not end");
  }
  return found;
}

const ids = (entries: readonly { sandboxId: string }[]) => entries.map(({ sandboxId }) => sandboxId);
const list = async (options: SandboxListOpts) => ids((await pages(options)).flat());
const made = (...positions: number[]) => ids(positions.flatMap((position) => sandboxes[position] ?? []));

test("all are listed, the newest first, each as it reads alone", async () => {
  const [page = []] = await pages({});
  expect(ids(page)).toEqual(made(3, 2, 1, 0));
  for (const entry of page) {
    const alone = await Sandbox.getInfo(entry.sandboxId, server().options);
    expect(alone).toMatchObject(entry);
    expect(entry.state).toBe("running");
  }
});

test("oldest first on options", async () => {
  expect(await list({ order: "asc" })).toEqual(made(0, 1, 2, 3));
});

test.each<{ limit: number; sizes: number[] }>([
  { limit: 1, sizes: [1, 1, 1, 1] },
  { limit: 2, sizes: [2, 2] },
  { limit: 3, sizes: [3, 1] },
  { limit: 4, sizes: [4] },
  { limit: 100, sizes: [4] },
])("in pages of $limit every sandbox comes exactly once", async ({ limit, sizes }) => {
  for (const order of ["asc", "desc"] as const) {
    const found = await pages({ limit, order });
    expect(found.map((page) => page.length)).toEqual(sizes);
    expect(ids(found.flat())).toEqual(order === "asc" ? made(0, 1, 2, 3) : made(3, 2, 1, 0));
  }
});

test("metadata filters match whole pairs, all of them, whatever characters they hold", async () => {
  const matching = (metadata: Record<string, string>) => list({ query: { metadata } });
  expect(await matching({ team: "red" })).toEqual(made(1, 0));
  expect(await matching({ team: "red", role: "b" })).toEqual(made(1));
  expect(await matching({ team: "re" })).toEqual([]);
  expect(await matching({ team: "blue", role: "a" })).toEqual([]);
  expect(await matching(STRANGE)).toEqual(made(2));
  expect(await matching({})).toEqual(made(3, 2, 1, 0));
});

test("a filter and pages together leave nothing out", async () => {
  const found = await pages({ limit: 1, query: { metadata: { team: "red" }, state: ["running"] } });
  expect(ids(found.flat())).toEqual(made(1, 0));
});

test("by state", async () => {
  expect(await list({ query: { state: ["running"] } })).toEqual(made(3, 2, 1, 0));
  expect(await list({ query: { state: ["running", "paused"] } })).toEqual(made(3, 2, 1, 0));
  expect(await list({ query: { state: ["paused"] } })).toEqual([]);
});

test("by template, and by start", async () => {
  expect(await list({ query: { template: "base" } })).toEqual(made(3, 2, 1, 0));
  expect(await list({ query: { template: "no-such-template" } })).toEqual([]);
  const third = await sandboxes[2]?.getInfo();
  if (third === undefined) throw new Error("the third sandbox is missing");
  expect(await list({ query: { startedAfter: third.startedAt } })).toEqual(made(3, 2));
});

test("a page size outside 1 to 100 and a made-up page are refused", async () => {
  for (const limit of [0, 101, -1]) {
    const error = await refusalOf(Sandbox.list({ ...server().options, limit }).nextItems());
    expect(error.message).toContain("limit");
  }
  const error = await refusalOf(Sandbox.list({ ...server().options, nextToken: "made-up" }).nextItems());
  expect(error.message).toStartWith("400: ");
});
