import { expect, test } from "bun:test";
import { RuleCertificates } from "./rule-certificates.ts";

const DAY_MS = 86_400_000;

function subject() {
  let now = 0;
  const made: string[] = [];
  const failing = new Set<string>();
  const certificateFor = async (name: string) => {
    made.push(name);
    if (failing.has(name)) throw new Error("openssl is missing");
    return `for ${name}`;
  };
  const certificates = new RuleCertificates({ certificateFor }, () => now);
  return { certificates, made, failing, wait: (ms: number) => (now += ms) };
}

test("a certificate is made once for each sandbox, and again after a day", async () => {
  const { certificates, made, wait } = subject();
  const get = () => Promise.all([certificates.get("10.0.0.1", "a.test"), certificates.get("10.0.0.1", "a.test")]);
  expect([await get(), made.splice(0)]).toEqual([Array(2).fill({ certificatePem: "for a.test" }), ["a.test"]]);
  wait(DAY_MS);
  await get();
  expect(made).toEqual(["a.test"]);
});

// Its first day would tell when another sandbox first used the name.
test("sandboxes share no certificates, not even those that have one address after another", async () => {
  const { certificates, made } = subject();
  for (const source of ["10.0.0.1", "10.0.0.11", "10.0.0.1"]) await certificates.get(source, "a.test");
  expect(made.splice(0)).toEqual(["a.test", "a.test"]);
  certificates.forget("10.0.0.1");
  for (const source of ["10.0.0.1", "10.0.0.11"]) await certificates.get(source, "a.test");
  expect(made).toEqual(["a.test"]);
});

test("a sandbox with many names loses its own certificates, and no others", async () => {
  const { certificates, made, wait } = subject();
  await certificates.get("10.0.0.2", "other.test");
  for (let at = 0; at < 257; at++, wait(1000)) await certificates.get("10.0.0.1", `n${at}.test`);
  made.length = 0;
  for (const name of ["n1.test", "n256.test"]) await certificates.get("10.0.0.1", name);
  await certificates.get("10.0.0.2", "other.test");
  expect(made).toEqual([]);
  await certificates.get("10.0.0.1", "n0.test");
  expect(made).toEqual(["n0.test"]);
});

test("thousands of names of one sandbox are limited, and do not affect others", async () => {
  const { certificates, made, wait } = subject();
  const names = Array.from({ length: 2000 }, (_, at) => `n${at}.test`);
  const got = await Promise.all(names.map((name) => certificates.get("10.0.0.1", name)));
  expect(made).toHaveLength(50);
  expect(got.at(-1)).toEqual({
    failure: "the sandbox needs too many certificates for new names (50 at once, then 1 each second)",
  });
  // Those that are kept cost nothing.
  expect(await certificates.get("10.0.0.1", "n0.test")).toEqual({ certificatePem: "for n0.test" });
  expect(await certificates.get("10.0.0.2", "other.test")).toEqual({ certificatePem: "for other.test" });
  wait(3_000);
  const later = await Promise.all(names.slice(100, 200).map((name) => certificates.get("10.0.0.1", name)));
  expect(later.filter((each) => "certificatePem" in each)).toHaveLength(3);
});

test("a failure is not kept", async () => {
  const { certificates, failing } = subject();
  failing.add("a.test");
  expect(await certificates.get("10.0.0.1", "a.test")).toEqual({
    failure: expect.stringContaining("openssl is missing"),
  });
  failing.clear();
  expect(await certificates.get("10.0.0.1", "a.test")).toEqual({ certificatePem: "for a.test" });
});
