import { expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import { Firewall, NFT_BATCH_MAX_CHARS } from "./nft.ts";

/** Loads one script at a time and refuses scripts that contain `refused`. */
function firewall(refused?: string, status = 500) {
  const loaded: string[] = [];
  let isLoading = false;
  const subject = new Firewall(async (script) => {
    expect(isLoading).toBe(false);
    isLoading = true;
    await Bun.sleep(0);
    isLoading = false;
    if (refused !== undefined && script.includes(refused)) throw new Fault(status, `refused: ${refused}`);
    loaded.push(script);
  });
  return { subject, loaded };
}

test("scripts that arrive while nft runs share the next transaction", async () => {
  const { subject, loaded } = firewall();
  await Promise.all(["a", "b", "c"].map((script) => subject.run(script)));
  await subject.run("d");
  expect(loaded).toEqual(["a", "bc", "d"]);
});

test("a rejected script fails alone", async () => {
  const { subject, loaded } = firewall("c");
  const all = await Promise.allSettled(["a", "b", "c", "d"].map((script) => subject.run(script)));
  expect(all.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected", "fulfilled"]);
  expect(loaded).toEqual(["a", "b", "d"]);
});

test("after a timeout no script is retried", async () => {
  const { subject, loaded } = firewall("c", 503);
  const all = await Promise.allSettled(["a", "b", "c"].map((script) => subject.run(script)));
  expect(all.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "rejected"]);
  expect(loaded).toEqual(["a"]);
});

test("a transaction is bounded in size, and a longer script runs alone", async () => {
  const { subject, loaded } = firewall();
  const long = "x".repeat(NFT_BATCH_MAX_CHARS + 1);
  await Promise.all(["a", "b", long, "c", "d"].map((script) => subject.run(script)));
  expect(loaded.map(({ length }) => length)).toEqual([1, 1, long.length, 2]);
});
