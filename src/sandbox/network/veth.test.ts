import { expect, test } from "bun:test";
import { innerBatch, outerBatch } from "./testing/ip-batches.ts";
import { shaping } from "./veth.ts";

test("the outer end makes both, leads to the one address, and needs nobody to ask who has it", () => {
  const end = {
    name: "slotabcd-7",
    address: "198.18.0.7",
    gateway: "198.18.0.1",
    mtu: 1400,
    namespace: "/proc/5/ns/net",
    bandwidthMbit: undefined,
    slotAlone: false,
  };
  expect(outerBatch(end).split("\n")).toEqual([
    "link add slotabcd-7 address 02:5a:00:00:00:22 mtu 1400 type veth " +
      "peer name eth0 address 02:5a:00:00:00:21 mtu 1400 netns /proc/5/ns/net",
    "link set slotabcd-7 addrgenmode none",
    "link set slotabcd-7 up",
    "route replace 198.18.0.7/32 dev slotabcd-7 src 198.18.0.1 congctl reno",
    "neighbor replace 198.18.0.7 lladdr 02:5a:00:00:00:21 dev slotabcd-7 nud permanent",
  ]);
});

test("the inner end has the address that all see and its own, and one way out", () => {
  const end = { address: "198.18.0.7", gateway: "198.18.0.1", slotAlone: false };
  const lines = innerBatch(end).split("\n");
  expect(lines).toEqual([
    "link set lo up",
    "address add 169.254.0.21/32 dev eth0",
    "address add 198.18.0.7/32 dev eth0",
    "link set eth0 addrgenmode none",
    "link set eth0 up",
    "neighbor replace 169.254.0.22 lladdr 02:5a:00:00:00:22 dev eth0 nud permanent",
    "route add default via 169.254.0.22 dev eth0 src 198.18.0.7 onlink",
    "route add 198.18.0.1/32 via 169.254.0.22 dev eth0 src 198.18.0.7 onlink congctl reno",
  ]);
  const alone = lines.with(1, "address add 169.254.0.21/32 dev lo").slice(0, -1);
  expect(innerBatch({ ...end, slotAlone: true }).split("\n")).toEqual(alone);
});

test.each([
  [1, "rate 1mbit burst 262144 "],
  [100, "rate 100mbit burst 262144 "],
  [10_000, "rate 10000mbit burst 25000000 "],
])("%i Mbit each second leave room for a tick of the clock", (mbit, expected) => {
  expect(shaping("eth0", mbit)).toBe(`qdisc replace dev eth0 root tbf ${expected}latency 50ms`);
});
