/**
 * Secrets through the unmodified SDK: the site receives the value, and the sandbox never has it. A site of the tests'
 * internet remembers the headers that it receives, and the test reads them there.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { ALL_TRAFFIC, Sandbox, Secret } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { newMark, receivedFor } from "../../support/egress/probing.ts";
import { sharedServer } from "../../support/shared-server.ts";

const LIFE = { timeoutMs: 600_000 };
const SITE = "allowed.test";
const server = sharedServer();

const newValue = () => `planted-${crypto.randomUUID().replaceAll("-", "")}`;
const rulesWith = (...headers: [name: string, value: string][]) => ({
  [SITE]: [{ transform: { headers: Object.fromEntries(headers) } }],
});
const network = { rules: rulesWith(["Authorization", `Bearer ${Secret.fill("site-key")}`]) };

let value = newValue();
let sandbox: Sandbox;
beforeAll(async () => {
  await Secret.create("site-key", value, server().options);
  sandbox = await Sandbox.create({ ...server().options, ...LIFE, network });
});
afterAll(async () => {
  await Secret.destroy("site-key", server().options);
});

/** The response of the site to a request by curl, as a whole. */
async function curl(from: Sandbox, path: string, options = ""): Promise<string> {
  const { stdout } = await from.commands.run(`curl -sS -i -m 30 ${options} https://${SITE}${path} 2>&1 || true`);
  return stdout;
}

/** The values of this header in the only request that arrived. */
async function arrived(from: Sandbox, name: string, options = ""): Promise<string[]> {
  const mark = newMark();
  const response = await curl(from, `/keep/${mark}`, options);
  const received = await receivedFor(mark);
  if (received.length !== 1) throw new Error(`${received.length} requests arrived; the sandbox got ${response}`);
  return (received[0]?.headers ?? []).flatMap(([each, text]) => (each === name ? [text] : []));
}

describe("a secret in a header rule", () => {
  test("reaches the site instead of what the sandbox sends, and its next version with the next request", async () => {
    expect(await arrived(sandbox, "authorization")).toEqual([`Bearer ${value}`]);
    expect(await arrived(sandbox, "authorization", "-H 'authorization: forged' -H 'AUTHORIZATION: again'")).toEqual([
      `Bearer ${value}`,
    ]);
    value = newValue();
    await Secret.update("site-key", value, server().options);
    expect(await arrived(sandbox, "authorization")).toEqual([`Bearer ${value}`]);
  });

  test("is only a placeholder in the sandbox's details", async () => {
    expect((await sandbox.getInfo()).network).toMatchObject(network);
  });

  test("reaches the site after pause and resume, and from a fork", async () => {
    await sandbox.pause();
    sandbox = await Sandbox.connect(sandbox.sandboxId, { ...server().options, ...LIFE });
    expect(await arrived(sandbox, "authorization")).toEqual([`Bearer ${value}`]);
    const [fork] = await sandbox.fork({ count: 1, ...LIFE });
    if (!(fork instanceof Sandbox)) throw fork ?? new Error("nothing was forked");
    expect(await arrived(fork, "authorization")).toEqual([`Bearer ${value}`]);
    await fork.kill();
  });

  test("that does not exist is a 502 that names it, and a line of the log; nothing reaches the site", async () => {
    const mark = newMark();
    await sandbox.updateNetwork({ rules: rulesWith(["X-Key", Secret.fill("no-such-key")]) });
    const response = await curl(sandbox, `/keep/${mark}`);
    expect(response).toMatch(/^HTTP\/\S+ 502/);
    expect(response).toContain("no-such-key");
    expect(await receivedFor(mark)).toEqual([]);
  });
});

test("a running sandbox gets its first rule, and loses its last one", async () => {
  const plain = await Sandbox.create({ ...server().options, ...LIFE });
  expect(await arrived(plain, "authorization", "-k")).toEqual([]);
  await plain.updateNetwork(network);
  expect(await arrived(plain, "authorization")).toEqual([`Bearer ${value}`]);
  await plain.updateNetwork({});
  expect(await arrived(plain, "authorization", "-k")).toEqual([]);
  expect((await plain.commands.run("env | grep -c -e CA_BUNDLE -e CERT_FILE || true")).stdout.trim()).toBe("0");
  await plain.kill();
});

test("a rule grants no access, and plain HTTP to its name is refused with an explanation", async () => {
  const denied = await Sandbox.create({
    ...server().options,
    ...LIFE,
    network: { ...network, denyOut: [ALL_TRAFFIC], allowOut: ["other.test"] },
  });
  const mark = newMark();
  await curl(denied, `/keep/${mark}`);
  await denied.kill();
  const { stdout } = await sandbox.commands.run(`curl -sS -i -m 30 http://${SITE}/keep/${mark} 2>&1 || true`);
  expect(stdout).toMatch(/^HTTP\/1\.1 4\d\d/);
  expect(stdout).toContain("https");
  expect(await receivedFor(mark)).toEqual([]);
});

describe("a search of the whole sandbox by root", () => {
  const search = async (planted: string) => {
    const backwards = [...planted].reverse().join("");
    const command = `python3 /root/search.py ${backwards} ${LONG ? "all" : ""}`;
    const { stdout } = await sandbox.commands.run(command, { user: "root", timeoutMs: 300_000 });
    return stdout.trim().split("\n");
  };

  test("finds a value that was given to it, and never a secret that it used", async () => {
    const program = await Bun.file(join(import.meta.dir, "../../support/services/search.py")).text();
    await sandbox.files.write("/root/search.py", program, { user: "root" });
    const decoy = newValue();
    await sandbox.commands.run("sleep 600", { user: "root", background: true, envs: { DECOY: decoy } });
    await sandbox.files.write("/home/user/decoy", decoy);
    const places = await search(decoy);
    expect(places).toContain("/home/user/decoy");
    expect(places.filter((place) => place.startsWith("environ of"))).not.toEqual([]);
    expect(places.filter((place) => place.startsWith("memory of"))).not.toEqual([]);

    await sandbox.updateNetwork(network);
    for (const [name, options] of [
      ["plain", ""],
      ["trace", "-X TRACE"],
      ["forged", "-H 'authorization: x'"],
      ["head", "-I"],
      ["host", "-H 'Host: other.test'"],
    ]) {
      await sandbox.commands.run(`curl -sS -v --trace /root/${name} ${options} https://${SITE}/reached || true`, {
        user: "root",
      });
    }
    await sandbox.commands.run("sleep 600", { background: true });
    expect(await search(value)).toEqual([expect.stringMatching(/^searched \d+$/)]);
  });
});
