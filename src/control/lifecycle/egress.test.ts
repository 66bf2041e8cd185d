import { expect, test } from "bun:test";
import type { Egress } from "../../contract/internal/host.ts";
import type { SandboxNetwork } from "../../store/sandboxes.ts";
import { egressOf } from "./egress.ts";

const none = { allowRanges: [], allowNames: [], denyRanges: [], proxy: null };
const all = ["0.0.0.0/0"];

const cases: [what: string, network: SandboxNetwork, internet: boolean | null, egress: Egress][] = [
  ["nothing was said", {}, null, "open"],
  ["an allowed address is not denied", { allowOut: ["1.1.1.1"] }, null, "open"],
  ["lists are empty", { allowOut: [], denyOut: [] }, true, "open"],
  ["only IPv6 is denied, which is closed anyway", { denyOut: ["::/0", "2001:db8::1"] }, null, "open"],
  ["everything is allowed", { allowOut: all, denyOut: ["1.1.1.1", ...all] }, null, "open"],
  ["the internet was denied", {}, false, "closed"],
  ["everything is denied", { denyOut: all }, true, "closed"],
  ["everything is denied in halves", { denyOut: ["128.0.0.0/1", "1.0.0.0/1"] }, null, "closed"],
  ["only IPv6 is allowed", { allowOut: ["2001:db8::1"], denyOut: all }, null, "closed"],
  ["nothing is left for a proxy", { denyOut: all, egressProxy: { address: "p.test:1080" } }, null, "closed"],
  [
    "the internet was denied, and some of it allowed",
    { allowOut: ["1.1.1.1"], denyOut: ["9.9.9.9"] },
    false,
    { ...none, allowRanges: ["1.1.1.1/32"], denyRanges: all },
  ],
  [
    "ranges and names come in many forms, and more than once",
    {
      allowOut: ["10.1.2.3/8", "10.0.0.0/8", "A.Test.", "a.test", "*.B.test", "*", "::1"],
      denyOut: [...all, "1.2.3.4", "1.2.3.4/32"],
    },
    null,
    {
      ...none,
      allowRanges: ["10.0.0.0/8"],
      allowNames: ["a.test", "*.b.test", "*"],
      denyRanges: [...all, "1.2.3.4/32"],
    },
  ],
  [
    "there is a proxy",
    { egressProxy: { address: "p.test:1080" } },
    null,
    { ...none, proxy: { host: "p.test", port: 1080, credentials: null } },
  ],
  [
    "the proxy asks for a name",
    { egressProxy: { address: "192.0.2.1:1", username: "ann" } },
    null,
    { ...none, proxy: { host: "192.0.2.1", port: 1, credentials: { username: "ann", password: "" } } },
  ],
];

test.each(cases)("%s", (_, network, allowInternetAccess, egress) => {
  expect(egressOf({ network, allowInternetAccess }, [])).toEqual(egress);
});

test("an unreadable proxy closes all traffic", () => {
  const network = { egressProxy: { address: "nowhere" } };
  expect(() => egressOf({ network, allowInternetAccess: null }, [])).toThrow("cannot be read");
});

test("opened private networks follow the rules for the internet", () => {
  const privateRanges = ["10.1.0.0/16"];
  const of = (network: SandboxNetwork, allowInternetAccess: boolean | null = null) =>
    egressOf({ network, allowInternetAccess }, privateRanges);
  expect(of({})).toEqual({ ...none, privateRanges });
  expect(of({}, false)).toBe("closed");
  expect(of({ denyOut: all })).toBe("closed");
  expect(of({ allowOut: ["10.1.2.3"] }, false)).toEqual({
    ...none,
    allowRanges: ["10.1.2.3/32"],
    denyRanges: all,
    privateRanges,
  });
});
