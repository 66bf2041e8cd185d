/** Which component receives which egress rules, in which order; tests/security/egress/rules.test.ts sends packets. */
import { expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import type { EgressPolicy } from "../../contract/internal/host.ts";
import { EgressRules } from "./egress-rules.ts";

const SLOT = 7;
const ADDRESS = "198.18.0.7";
const denied: EgressPolicy = { allowRanges: [], allowNames: [], denyRanges: ["9.0.0.0/8"], proxy: null };
const named: EgressPolicy = { ...denied, allowNames: ["a.test"] };

/** Records each step in a word; steps in `ill` fail. */
async function rules(adopted?: EgressPolicy) {
  const happened: string[] = [];
  const ill = new Set<string>();
  const act = async (what: string) => {
    happened.push(what);
    if (ill.has(what)) throw new Fault(500, `${what} failed`);
  };
  const subject = new EgressRules({
    table: "t",
    net: 0,
    address: () => ADDRESS,
    nft: (script) => act(script.includes("flush") ? "fill" : script.includes("delete set") ? "remove" : "make"),
  });
  if (adopted !== undefined) subject.adopt(SLOT, adopted);
  await subject.use({
    uid: 1,
    ports: { http: 1, tls: 2, proxied: 3 },
    set: (_, policy) => act(policy === null ? "forget" : `tell ${policy.allowNames}`),
    setClosed: async () => undefined,
    answerRule: () => undefined,
    close: async () => undefined,
  });
  const since = async () => {
    await subject.settled();
    return happened.splice(0);
  };
  return { subject, ill, since };
}

test("the relay gets a sandbox's rules before its connections, and drops them after", async () => {
  const { subject, since } = await rules();
  await subject.set(SLOT, named);
  expect(await since()).toEqual(["tell a.test", "make", "fill"]);
  await subject.set(SLOT, { ...named, denyRanges: ["0.0.0.0/0"] });
  expect(await since()).toEqual(["tell a.test", "fill", "remove"]);
  await subject.set(SLOT, "closed");
  expect(await since()).toEqual(["fill", "forget"]);
  expect(subject.matcherOf(ADDRESS)?.mayResolve("a.test")).toBe(false);
  await subject.forget(SLOT);
  expect(await since()).toEqual(["fill"]);
  expect(subject.matcherOf(ADDRESS)).toBeUndefined();
});

test("unchanged rules cause no call, and an open sandbox none at all", async () => {
  const { subject, since } = await rules();
  await subject.set(SLOT, "open");
  await subject.forget(SLOT);
  await subject.set(SLOT, denied);
  await since();
  await subject.set(SLOT, { ...denied });
  expect(await since()).toEqual([]);
});

test("changes of one sandbox wait for each other", async () => {
  const { subject, since } = await rules();
  await Promise.all([subject.set(SLOT, denied), subject.set(SLOT, "closed"), subject.forget(SLOT)]);
  expect(await since()).toEqual(["make", "fill", "fill", "remove", "fill"]);
});

test("rules of adopted sandboxes go to the relay and hold from the start", async () => {
  const { subject, since } = await rules(named);
  expect(await since()).toEqual(["tell a.test"]);
  expect(subject.matcherOf(ADDRESS)?.allowsName("a.test")).toBe(true);
  expect(subject.slots).toMatchObject([{ slot: SLOT, rules: { egress: named } }]);
});

test.each([
  ["tell a.test", "and are as before"],
  ["make", "and are as before"],
  ["fill", "say again what is to hold"],
])("after a failure at %p the previous rules apply, and the caller gets the error", async (at, message) => {
  const { subject, ill, since } = await rules();
  await subject.set(SLOT, denied);
  ill.add(at);
  await expect(subject.set(SLOT, named)).rejects.toThrow(message);
  ill.clear();
  expect(subject.matcherOf(ADDRESS)?.allowsName("a.test")).toBe(false);
  await since();
  // The next successful change removes the rest of the failed attempt.
  await subject.set(SLOT, named);
  expect(await since()).toEqual(["tell a.test", "make", "fill", "remove"]);
});

test("equal rules are sent again if they may not be in force", async () => {
  const { subject, ill, since } = await rules();
  await subject.set(SLOT, denied);
  ill.add("fill");
  await expect(subject.set(SLOT, named)).rejects.toThrow("the old rules are enforced, or the new ones");
  ill.clear();
  await since();
  await subject.set(SLOT, denied);
  expect(await since()).toEqual(["make", "fill", "forget", "remove"]);
});

test("rules in force stay if the previous ones could not be removed", async () => {
  const { subject, ill, since } = await rules();
  await subject.set(SLOT, named);
  ill.add("forget").add("remove");
  await subject.set(SLOT, "closed");
  ill.clear();
  await since();
  await subject.set(SLOT, "open");
  expect(await since()).toEqual(["fill", "forget", "remove"]);
});
