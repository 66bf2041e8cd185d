/**
 * Secrets through the official client and the operator's commands on a real server, which keeps their values out of
 * everything that it writes and says.
 */
import { expect, test } from "bun:test";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { Sandbox, Secret } from "e2b";
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { attempt } from "../../../src/system/command.ts";
import { sharedServer } from "../../support/shared-server.ts";

const server = sharedServer();
const MAIN = `${import.meta.dir}/../../../src/cli/main.ts`;
const VALUE = "planted-3f7a9c51d20e";
const ROTATED = /^encrypted (\d+) values and \d+ signing keys with the new key$/;
/** The disks of sandboxes are images of many gigabytes; no value goes there. */
const FILE_MAX_BYTES = 64 * 1024 * 1024;

async function sandlot(stdin: string, ...args: string[]) {
  const env = serverEnv(server().dataFolder);
  const { exitCode, stdout, stderr } = await attempt([process.execPath, MAIN, ...args], {
    env,
    stdin,
    timeoutMs: 120_000,
  });
  return { code: exitCode, out: stdout.trim().split("\n"), error: stderr };
}

const rulesFor = (name: string) => ({
  "api.example.com": [{ transform: { headers: { Authorization: `Bearer ${Secret.fill(name)}` } } }],
});

test("rules of a sandbox show placeholders, through pause, resume, fork and changes", async () => {
  await Secret.create("Shown", VALUE, { ...server().options, metadata: { of: "this test" } });
  const sandbox = await Sandbox.create({ ...server().options, network: { rules: rulesFor("shown") } });
  const shown = async ({ sandboxId }: Sandbox) => (await Sandbox.getInfo(sandboxId, server().options)).network?.rules;
  expect(await shown(sandbox)).toEqual(rulesFor("shown"));
  await sandbox.pause();
  const resumed = await Sandbox.connect(sandbox.sandboxId, server().options);
  expect(await shown(resumed)).toEqual(rulesFor("shown"));
  const [copy] = await resumed.fork({ timeoutMs: 300_000 });
  if (!(copy instanceof Sandbox)) throw copy;
  expect(await shown(copy)).toEqual(rulesFor("shown"));
  await copy.updateNetwork({ rules: rulesFor("other") });
  expect([await shown(copy), await shown(resumed)]).toEqual([rulesFor("other"), rulesFor("shown")]);
  const inside = await resumed.commands.run(`env; grep -rls ${VALUE.slice(0, 8)}'-3f7a' /home /etc /tmp /run || true`);
  expect(inside.stdout).not.toContain("planted");
  await Promise.all([copy.kill(), resumed.kill()]);
  expect(await Secret.destroy("SHOWN", server().options)).toBe(true);
});

test("the operator's commands take a value from standard input, and rotate the key beside the client", async () => {
  expect(await sandlot(`${VALUE}\n`, "secrets", "set", "Ours")).toEqual({
    code: 0,
    out: ["ours has version 1; it applies to the next request"],
    error: "",
  });
  expect((await sandlot("two", "secrets", "set", "ours")).out).toEqual([
    "ours has version 2; it applies to the next request",
  ]);
  const { secretId, version } = await Secret.getInfo("ours", server().options);
  expect(version).toBe(2);
  // Other files use this server, too.
  expect((await sandlot("", "secrets", "list")).out).toContainEqual(
    expect.stringMatching(new RegExp(`^ours {2}${secretId} {2}version 2 {2}20`)),
  );
  await sandlot("", "teams", "create", "without-secrets");
  expect(await sandlot("", "secrets", "list", "--team", "without-secrets")).toEqual({
    code: 0,
    out: [""],
    error: "no secrets in team without-secrets\n",
  });
  const key = () => readFileSync(join(server().dataFolder, "secrets-key"), "utf8");
  const before = key();
  const { code, out, error } = await sandlot("", "secrets", "rotate-key");
  expect([code, error]).toEqual([0, ""]);
  expect(Number(ROTATED.exec(out.join("\n"))?.[1])).toBeGreaterThanOrEqual(2);
  expect(key()).not.toBe(before);
  expect(statSync(join(server().dataFolder, "secrets-key")).mode & 0o777).toBe(0o600);
  const [published] = (await sandlot("", "secrets", "rotate-signing-key")).out;
  expect(published).toMatch(/^published a new key; it signs from 20\S+Z$/);
  expect((await Secret.update("ours", "three", server().options)).version).toBe(3);
  const wrong = await Promise.all([
    sandlot("", "secrets", "set", "ours", VALUE),
    sandlot("", "secrets", "set", "empty"),
    sandlot("x", "secrets", "set", "a.b"),
    sandlot("x", "secrets", "set", "a", "--team", "none"),
    sandlot("", "secrets", "delete", "missing"),
  ]);
  expect(wrong.map(({ code }) => code)).toEqual([1, 1, 1, 1, 1]);
  expect((await sandlot("", "secrets", "delete", "ours")).out).toEqual(["deleted ours"]);
  expect(await Secret.exists("ours", server().options)).toBe(false);
});

test("a value is in no file, log, entry or bundle of the server in clear text", async () => {
  await Secret.create("planted", VALUE, server().options);
  await Secret.update("planted", `${VALUE}-two`, server().options);
  const sandbox = await Sandbox.create({ ...server().options, network: { rules: rulesFor("planted") } });
  const bundle = join(server().dataFolder, "support.tar.gz");
  const texts = await Promise.all([
    sandlot("", "audit", "--json"),
    sandlot("", "logs"),
    sandlot("", "metrics"),
    sandlot("", "support", bundle, "--no-doctor"),
  ]);
  const unpacked = await attempt(["tar", "-xzOf", bundle]);
  const said = [JSON.stringify(texts), unpacked.stdout, server().output()];
  expect(unpacked.stdout).not.toBe("");
  for (const path of readdirSync(server().dataFolder)) {
    const file = join(server().dataFolder, path);
    const { size } = statSync(file);
    if (statSync(file).isFile() && size < FILE_MAX_BYTES) said.push(readFileSync(file, "latin1"));
  }
  expect(said.filter((text) => text.includes(VALUE))).toEqual([]);
  expect(said.some((text) => text.includes("e2b.secrets.planted"))).toBe(true);
  await sandbox.kill();
  await Secret.destroy("planted", server().options);
});
