import { expect, test } from "bun:test";
import { currentRequest, inRequest } from "./current-request.ts";
import { jsonLog } from "./log.ts";

test("the lines of a request have its id, until it is over", async () => {
  const lines: string[] = [];
  const log = jsonLog((line) => lines.push(line));
  const note = (event: string) => log.write({ level: "info", event });
  const over = Promise.withResolvers<void>();
  let behind: Promise<void> | undefined;
  note("before");
  await Promise.all([
    inRequest({ id: "one" }, async () => {
      await Promise.resolve();
      note("within");
      log.write({ level: "info", event: "own", request: "another" });
      behind = over.promise.then(() => note("left behind"));
    }),
    inRequest({ id: "two" }, async () => note("beside")),
    inRequest(undefined, async () => note("without")),
  ]);
  over.resolve();
  await behind;
  const ids = lines.map((line) => JSON.parse(line)).map(({ event, request }) => [event, request]);
  expect(Object.fromEntries(ids)).toEqual({
    before: undefined,
    within: "one",
    own: "another",
    "left behind": undefined,
    beside: "two",
    without: undefined,
  });
});

test("a request that fails is over, too", async () => {
  let behind: (() => unknown) | undefined;
  const failing = inRequest({ id: "one" }, async () => {
    await Promise.resolve();
    const later = Promise.withResolvers<void>();
    const seen = later.promise.then(currentRequest);
    behind = () => {
      later.resolve();
      return seen;
    };
    throw new Error("it failed");
  });
  await expect(failing).rejects.toThrow("it failed");
  expect(await behind?.()).toBeUndefined();
});
