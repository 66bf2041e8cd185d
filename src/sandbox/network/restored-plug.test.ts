import { expect, test } from "bun:test";
import { addressBefore, closeConnectionsScript, HOLD_COMMAND } from "./restored-plug.ts";

const address = "198.18.0.7";
const same = { address, connected: false };
const elsewhere = { address: "198.18.0.9", connected: true };
const OUTSIDE_SAME =
  "'not ( dst 127.0.0.0/8 or dst [::1] or dst 169.254.0.21 or dst 198.18.0.7 or dst 198.18.0.7 )' > /dev/null || true";

test("a sandbox without connections that keeps its address needs no work", () => {
  expect(addressBefore(same, address)).toBeUndefined();
  expect(closeConnectionsScript({ address, before: same, connectedUdp: false })).toBeUndefined();
});

test("packets are blocked until the connections to the outside are closed", () => {
  expect(HOLD_COMMAND[1]).toMatch(/^table inet sandlot_hold .*policy drop/);
  const lines = closeConnectionsScript({ address, before: elsewhere, connectedUdp: false })?.split("\n");
  expect(lines?.map((line) => line.split(" ").slice(0, 3).join(" "))).toEqual([
    "ss --kill --no-header",
    "nft delete table",
  ]);
  expect(lines?.[1]).toEndWith("sandlot_hold");
});

test("a connection from the old address to itself is inside the sandbox", () => {
  expect(addressBefore(elsewhere, address)).toBe("198.18.0.9");
  expect(closeConnectionsScript({ address, before: elsewhere, connectedUdp: false })).toContain("dst 198.18.0.9");
});

test("a connected UDP socket is closed, and nothing else changes", () => {
  expect(closeConnectionsScript({ address, before: same, connectedUdp: true })).toBe(
    `ss --kill --no-header --tcp --udp --numeric state connected ${OUTSIDE_SAME}`,
  );
});
