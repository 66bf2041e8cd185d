/** Tracked flows of the real kernel, in the tests' network. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createSocket } from "node:dgram";
import { readFileSync } from "node:fs";
import { run } from "../command.ts";
import { forgetFlows } from "./conntrack.ts";

const TABLE = `sandlot_test_flows_${process.pid}`;
const [MINE, OTHERS] = ["127.77.0.1", "127.77.0.2"];
const PORT = 4444;

beforeAll(async () => {
  // The kernel tracks flows only where a rule asks for them.
  const chain = "chain out {\ntype filter hook output priority 0;\nct state new counter\n}";
  const rules = `table inet ${TABLE} {\n${chain}\n}\n`;
  await run(["nft", "-f", "-"], { stdin: rules });
});
afterAll(async () => {
  await run(["nft", "delete", "table", "inet", TABLE]);
});

async function sendFrom(from: string, to: string): Promise<void> {
  const socket = createSocket("udp4");
  await new Promise<void>((resolve) => socket.bind(0, from, resolve));
  await new Promise<void>((resolve, reject) => {
    socket.send("x", PORT, to, (error) => (error === null ? resolve() : reject(error)));
  });
  socket.close();
}

function flows(): string[] {
  const lines = readFileSync("/proc/net/nf_conntrack", "utf8").split("\n");
  return lines.flatMap((line) => /src=(127\.77\.\S+) dst=(127\.77\.\S+)/.exec(line)?.slice(1, 3).join(" to ") ?? []);
}

describe.each([false, true])("one by one: %p", (oneByOne) => {
  test("flows from and to an address are removed, and no others", async () => {
    for (const [from, to] of [
      [MINE, OTHERS],
      [OTHERS, MINE],
      [MINE, MINE],
      [OTHERS, OTHERS],
    ] as const) {
      await sendFrom(from, to);
    }
    expect(new Set(flows()).size).toBe(4);
    forgetFlows(MINE, { oneByOne });
    expect(new Set(flows())).toEqual(new Set([`${OTHERS} to ${OTHERS}`]));
    forgetFlows(MINE, { oneByOne });
    forgetFlows(OTHERS, { oneByOne });
    expect(flows()).toEqual([]);
  });
});
