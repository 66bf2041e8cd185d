/** Listing sandboxes through the SDK. All filters, orders and pages: src/control/views/sandbox-list.test.ts. */
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

test("in pages every sandbox comes exactly once, in either order", async () => {
  for (const order of ["asc", "desc"] as const) {
    const found = await pages({ limit: 3, order });
    expect(found.map((page) => page.length)).toEqual([3, 1]);
    expect(ids(found.flat())).toEqual(order === "asc" ? made(0, 1, 2, 3) : made(3, 2, 1, 0));
  }
});

test("metadata filters match whole pairs, whatever characters they hold, page by page", async () => {
  expect(await list({ query: { metadata: STRANGE } })).toEqual(made(2));
  const found = await pages({ limit: 1, query: { metadata: { team: "red" }, state: ["running"] } });
  expect(ids(found.flat())).toEqual(made(1, 0));
});

test("by state, template and start", async () => {
  expect(await list({ query: { template: "base", state: ["running", "paused"] } })).toEqual(made(3, 2, 1, 0));
  expect(await list({ query: { state: ["paused"] } })).toEqual([]);
  expect(await list({ query: { template: "no-such-template" } })).toEqual([]);
  const third = await sandboxes[2]?.getInfo();
  if (third === undefined) throw new Error("the third sandbox is missing");
  expect(await list({ query: { startedAfter: third.startedAt } })).toEqual(made(3, 2));
});

test("a page size outside 1 to 100 and a made-up page are refused", async () => {
  const tooMany = await refusalOf(Sandbox.list({ ...server().options, limit: 101 }).nextItems());
  expect(tooMany.message).toContain("limit");
  const error = await refusalOf(Sandbox.list({ ...server().options, nextToken: "made-up" }).nextItems());
  expect(error.message).toStartWith("400: ");
});
