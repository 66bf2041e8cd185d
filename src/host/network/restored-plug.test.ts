import { expect, test } from "bun:test";
import { plugScript, settleScript } from "./restored-plug.ts";

const end = {
  name: "slotabcd-7",
  address: "198.18.0.7",
  gateway: "198.18.0.1",
  mtu: 1500,
  namespace: "/proc/$P/ns/net",
  bandwidthMbit: undefined,
  slotAlone: false,
};
const same = { address: end.address, connected: false };
const elsewhere = { address: "198.18.0.9", connected: true };
const ids = { first: 1_900_065_536 };

test("a sandbox without connections that comes back to its address is only plugged in", () => {
  const script = plugScript(end, same, ids);
  expect(script).toContain("netns /proc/$P/ns/net");
  expect(script).toContain('exec nsenter --net="/proc/$P/ns/net" -- /bin/sh -e <<END');
  expect(script).toContain('echo "1900065536 1900131071" > /proc/sys/net/ipv4/ping_group_range');
  expect(script).not.toContain("nft");
  expect(script).not.toContain("dev lo");
  expect(settleScript({ address: end.address, before: same, connectedUdp: false, name: undefined })).toBeUndefined();
});

test("where the slot's address is to be alone on eth0, the one before and the one that all see are on the loopback", () => {
  const script = plugScript({ ...end, slotAlone: true }, elsewhere, ids);
  const added = [...script.matchAll(/address add (\S+) dev (\S+)/g)].map(
    ([, address, device]) => `${address} ${device}`,
  );
  expect(added).toEqual(["169.254.0.21/32 lo", "198.18.0.7/32 eth0", "198.18.0.9/32 lo"]);
});

test("where bandwidth is bounded both ends are, before there is a socket", () => {
  const lines = plugScript({ ...end, bandwidthMbit: 100 }, same, ids).split("\n");
  const shaped = lines.filter((line) => line.startsWith("tc qdisc replace dev "));
  expect(shaped.map((line) => line.split(" ")[4])).toEqual(["slotabcd-7", "eth0"]);
  expect(lines.findIndex((line) => line.startsWith("exec nsenter"))).toBeGreaterThan(lines.indexOf(shaped[0] ?? ""));
  expect(plugScript(end, same, ids)).not.toContain("tc ");
});

test("packets are held back before the interface is up, and let in at the end", () => {
  const script = plugScript(end, elsewhere, ids);
  expect(script.indexOf("policy drop")).toBeGreaterThan(0);
  expect(script.indexOf("policy drop")).toBeLessThan(script.indexOf("link set eth0 up"));
  const settle = settleScript({ address: end.address, before: elsewhere, connectedUdp: false, name: undefined });
  expect(settle?.split("\n").map((line) => line.split(" ").slice(0, 3).join(" "))).toEqual([
    "ss --kill --no-header",
    "nft delete table",
    "ip address del",
  ]);
});

test("the address before is there while sockets are restored, and no longer", () => {
  expect(plugScript(end, elsewhere, ids)).toContain("address add 198.18.0.9/32 dev lo");
  const settle = settleScript({ address: end.address, before: elsewhere, connectedUdp: false, name: undefined });
  expect(settle).toContain("ip address del 198.18.0.9/32 dev lo");
  // A connection from the address before to itself is one within the sandbox.
  expect(settle).toContain("dst 198.18.0.9");
});

test("a UDP socket with a peer is closed, and a copy gets its own name, without anything else being touched", () => {
  const settle = settleScript({ address: end.address, before: same, connectedUdp: true, name: "x.e2b.local" });
  expect(settle?.split("\n")).toEqual([
    "ss --kill --no-header --tcp --udp --numeric state connected " +
      "'not ( dst 127.0.0.0/8 or dst [::1] or dst 169.254.0.21 or dst 198.18.0.7 or dst 198.18.0.7 )' > /dev/null || true",
    "echo x.e2b.local > /proc/sys/kernel/hostname",
  ]);
});
