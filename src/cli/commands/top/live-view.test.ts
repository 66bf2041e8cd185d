import { expect, test } from "bun:test";
import { Fault } from "../../../contract/fault.ts";
import type { AdminSandbox, ServerStatus } from "../../server/admin/server-status.ts";
import { keysOf, LiveView } from "./live-view.ts";

const [UP, DOWN, ESCAPE] = ["\x1b[A", "\x1b[B", "\x1b"];
const STATUS: Partial<ServerStatus> = {
  version: "1",
  sandboxes: {},
  slots: { free: 1, total: 1 },
  memory: { usedBytes: 0, promisedBytes: 0, availableBytes: 1, totalBytes: 1, savedBytes: 0 },
  disk: { freeBytes: 1, totalBytes: 1 },
};
const SANDBOXES = ["i1", "i2", "i3"].map(
  (id): Partial<AdminSandbox> => ({
    id,
    team: "default",
    templateId: "base",
    alias: "base",
    state: "running",
    startedAt: 0,
  }),
);

/** A view on a server that answers with `answer`. */
function viewOf(answer: (request: string) => unknown) {
  const seen = { requests: [] as string[], screen: "" };
  const call = async (request: string) => {
    seen.requests.push(request);
    return Response.json((await answer(request)) ?? (request === "GET /status" ? STATUS : SANDBOXES));
  };
  const view = new LiveView(call, "id", "", (text) => {
    seen.screen = text;
  });
  const kills = () => seen.requests.filter((request) => request.startsWith("DELETE"));
  return { view, seen, kills };
}

test.each<[string, string[]]>([
  ["", []],
  ["xy", ["x", "y"]],
  [UP + DOWN + DOWN, [UP, DOWN, DOWN]],
  [`j${DOWN}ö🦀`, ["j", DOWN, "ö", "🦀"]],
  [ESCAPE, [ESCAPE]],
  [ESCAPE + UP, [ESCAPE, UP]],
  ["\x1bx", ["\x1bx"]],
  ["\x1bOA\x1b[5~q\n", ["\x1bOA", "\x1b[5~", "q", "\n"]],
])("the keys of %j are %j", (text, keys) => {
  expect(keysOf(text)).toEqual(keys);
});

test("all keys of one piece count", async () => {
  const { view, seen } = viewOf(() => undefined);
  await view.tick();
  view.onKeys(`${DOWN + DOWN}x`);
  expect(seen.screen).toContain("kill i3?");
});

test("a sandbox is killed only by a confirmation that comes alone", async () => {
  const { view, seen, kills } = viewOf(() => undefined);
  await view.tick();
  for (const pasted of ["xy", "xyy", "xyxy"]) view.onKeys(pasted);
  expect(seen.screen).not.toContain("kill i1?");
  view.onKeys("x");
  view.onKeys("yy");
  view.onKeys("x");
  view.onKeys("n");
  view.onKeys("x");
  expect(seen.screen).toContain("kill i1?");
  expect(kills()).toEqual([]);
  view.onKeys("y");
  expect(kills()).toEqual(["DELETE /sandboxes/i1"]);
});

test("the error of a failed refresh goes with the next good one", async () => {
  let isDown = true;
  const { view, seen } = viewOf(() => (isDown ? Promise.reject(new Fault(502, "connection lost")) : undefined));
  await view.tick();
  expect(seen.screen).toContain("connection lost");
  isDown = false;
  await view.tick();
  expect(seen.screen).not.toContain("connection lost");
});

test("a refresh does not begin before the last one has ended", async () => {
  const answer = Promise.withResolvers<undefined>();
  const { view, seen } = viewOf(() => answer.promise);
  const first = view.tick();
  await view.tick();
  expect(seen.requests).toEqual(["GET /status"]);
  answer.resolve(undefined);
  await first;
  await view.tick();
  expect(seen.requests).toHaveLength(4);
});
