import { expect, test } from "bun:test";
import { fetching } from "./fetching.ts";

const AWAY = new Error("Temporary failure resolving 'mirror.test'");

/** Fails so many times with this cause, then succeeds. */
function failing(times: number, cause: Error): { fetch: () => Promise<string>; tries: () => number } {
  let tries = 0;
  const fetch = async () => {
    if (tries++ < times) throw cause;
    return "fetched";
  };
  return { fetch, tries: () => tries };
}

test("a briefly unavailable mirror is retried, with a message", async () => {
  const lines: string[] = [];
  const { fetch } = failing(2, AWAY);
  expect(await fetching(fetch, (line) => lines.push(line), [0, 0])).toBe("fetched");
  expect(lines).toHaveLength(2);
});

test("an unavailable mirror is given up", async () => {
  const { fetch, tries } = failing(9, AWAY);
  await expect(fetching(fetch, () => undefined, [0, 0])).rejects.toBe(AWAY);
  expect(tries()).toBe(3);
});

test("a permanent failure is not retried", async () => {
  const absent = new Error("E: Unable to locate package nonsense");
  const { fetch, tries } = failing(9, absent);
  await expect(fetching(fetch, () => undefined, [0, 0])).rejects.toBe(absent);
  expect(tries()).toBe(1);
});
