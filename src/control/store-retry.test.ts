/** How often the store is asked again during an outage, and what the log says of it. */
import { expect, test } from "bun:test";
import { jsonLog } from "../base/log.ts";
import { ManualClock } from "../base/testing/manual-clock.ts";
import { Fault } from "../contract/fault.ts";
import { STORE_RETRY_MAX_MS } from "./limits.ts";
import { StoreRetry } from "./store-retry.ts";

const away = new Fault(503, "the store is away");
const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve));

function opened() {
  const [clock, lines] = [new ManualClock(0), [] as string[]];
  const log = jsonLog(
    (line) => lines.push(line),
    () => clock.now(),
  );
  return { clock, lines, retry: new StoreRetry({ clock, log }) };
}

test("an outage costs an attempt every 5 s, and a line for each doubling of the attempts", async () => {
  const { clock, lines, retry } = opened();
  const triedAt: number[] = [];
  let isAway = true;
  const recorded = retry.untilRecorded("a loss", async () => {
    triedAt.push(clock.now());
    if (isAway) throw away;
    return "done";
  });
  await nextTurn();
  await clock.advance(60_000, nextTurn);
  expect(triedAt.slice(0, 8)).toEqual([0, 250, 750, 1_750, 3_750, 7_750, 12_750, 17_750]);
  expect(triedAt).toHaveLength(16);
  expect(lines.map((line) => JSON.parse(line).failures)).toEqual([1, 2, 4, 8, 16]);
  isAway = false;
  await clock.advance(STORE_RETRY_MAX_MS, nextTurn);
  expect(await recorded).toBe("done");
  expect(clock.timers).toBe(0);
});

test("a close ends the attempts", async () => {
  const { clock, retry } = opened();
  const recorded = retry.untilRecorded("a loss", () => Promise.reject(away)).catch((error: unknown) => error);
  await nextTurn();
  retry.close();
  expect([await recorded, clock.timers]).toEqual([away, 0]);
});

test("an error that stays is thrown at once", async () => {
  const { lines, retry } = opened();
  const recorded = retry.untilRecorded(
    "a loss",
    () => Promise.reject(new Error("broken")),
    (error) => error instanceof Fault,
  );
  expect(await recorded.catch(String)).toBe("Error: broken");
  expect(lines).toEqual([]);
});
