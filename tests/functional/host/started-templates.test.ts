/**
 * A public template with a started server, used by three teams: each sandbox has the started server, a machine of its
 * own, and nothing of another team. At last its memory no longer fits the machine.
 */
import { afterAll, beforeAll, expect, spyOn, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox, Template, waitForPort } from "e2b";
import { attempt } from "../../../src/system/command.ts";
import { shell } from "../../support/inside.ts";
import { RealServer } from "../../support/real-server.ts";
import { newDataFolder } from "../../support/server.ts";
import { until } from "../../support/until.ts";

const SEARCH_MS = 60_000;
const PORT = 8000;
const TOKEN_BYTES = 32;
const TEAMS = ["builder", "one", "two"] as const;
type Name = (typeof TEAMS)[number];

/** Serves the random value that it drew at its start. */
const SERVICE = `import http.server, os
drawn = os.urandom(16).hex().encode()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(drawn)
http.server.HTTPServer(("127.0.0.1", ${PORT}), Handler).serve_forever()`;

const random = () => crypto.randomUUID().replaceAll("-", "");

let server: RealServer;
let templateId: string;
/** All secrets of each team. */
const secrets = {} as Record<Name, Record<string, string>>;
const sandboxes = {} as Record<Name, Sandbox>;

beforeAll(async () => {
  server = await RealServer.open(newDataFolder("started-templates"));
  const credentials = { username: random(), password: random() };
  const drawn = await drawnWhile(async () => {
    const template = Template()
      .fromImage("e2bdev/base", credentials)
      .runCmd(`cat > /srv/service.py <<'END'\n${SERVICE}\nEND`, { user: "root" })
      .setStartCmd("exec python3 /srv/service.py", waitForPort(PORT));
    templateId = (await Template.build(template, "served", options(server.apiKey))).templateId;
  });
  expect(drawn.length).toBeGreaterThan(3);
  const published = await fetch(`${server.url}/v2/templates/${templateId}`, {
    method: "PATCH",
    headers: { "X-API-Key": server.apiKey, "Content-Type": "application/json" },
    body: JSON.stringify({ public: true }),
  });
  expect(published.status).toBe(200);
  const keys = { builder: server.apiKey, one: await server.anotherTeam("one"), two: await server.anotherTeam("two") };
  for (const team of TEAMS) {
    secrets[team] = { key: keys[team], variable: random(), file: random(), memory: random() };
    sandboxes[team] = await furnished(keys[team], secrets[team]);
  }
  Object.assign(secrets.builder, credentials, Object.fromEntries(drawn.map((word, at) => [`drawn ${at}`, word])));
});
afterAll(async () => {
  for (const sandbox of Object.values(sandboxes)) await sandbox.kill();
  await server[Symbol.asyncDispose]();
});

const options = (apiKey: string) => server.optionsWith(apiKey);

/** Tokens and secrets that the server drew meanwhile. */
async function drawnWhile(work: () => Promise<void>): Promise<string[]> {
  const drawn: Uint8Array[] = [];
  const draw = crypto.getRandomValues.bind(crypto);
  using _spy = spyOn(crypto, "getRandomValues").mockImplementation(((array: Uint8Array<ArrayBuffer>) => {
    const filled = draw(array);
    if (filled.byteLength === TOKEN_BYTES) drawn.push(filled);
    return filled;
  }) as typeof crypto.getRandomValues);
  await work();
  return drawn.map((bytes) => bytes.toHex());
}

/** A sandbox with a secret in its variables, one in a file and one in the memory of a process; its token is another. */
async function furnished(apiKey: string, secret: Record<string, string>): Promise<Sandbox> {
  const envs = { VARIABLE: secret.variable ?? "" };
  const sandbox = await Sandbox.create(templateId, { ...options(apiKey), envs });
  Object.assign(secret, { token: (sandbox as unknown as { envdAccessToken: string }).envdAccessToken });
  await sandbox.files.write("/home/user/file", secret.file ?? "");
  const holding = await sandbox.commands.run("exec python3 -c 'held = input(); input()'", {
    background: true,
    stdin: true,
  });
  await sandbox.commands.sendStdin(holding.pid, `${secret.memory}\n`);
  return sandbox;
}

async function served(sandbox: Sandbox): Promise<string> {
  const response = await fetch(server.url, { headers: { Host: sandbox.getHost(PORT) } });
  expect(response.status).toBe(200);
  return await response.text();
}

/** Memory without its zero bytes: there a text of JavaScript reads the same in either encoding. */
const SEARCH = `patterns=$1; shift
grep -zrahoFf "$patterns" "$@"
find "$@" -path "*/memory/*" -type f -exec cat {} + | tr -d "\\000" | grep -aoFf "$patterns"
true`;

/** Which of these words are in these folders. */
async function wordsIn(folders: readonly string[], words: readonly string[]): Promise<Set<string>> {
  const patterns = join(server.data.path, "words");
  writeFileSync(patterns, words.join("\n"));
  const { stdout, stderr } = await attempt(["sh", "-c", SEARCH, "search", patterns, ...folders], {
    timeoutMs: SEARCH_MS,
  });
  expect(stderr).toBe("");
  return new Set(stdout.split(/[\0\n]/).filter(Boolean));
}

/** In all that a sandbox has: its disk and the memory of all its processes. */
async function wordsOf({ sandboxId }: Sandbox, words: readonly string[]): Promise<Set<string>> {
  const { machine } = server;
  const name = `look-${sandboxId}`;
  await machine.snapshot(sandboxId, name, { memory: true });
  try {
    return await wordsIn([machine.parts.checkpoints.folderOf(name).path], words);
  } finally {
    await machine.removeCheckpoint(name);
  }
}

test("every sandbox serves the random value from the build, and has its own machine id", async () => {
  const all = Object.values(sandboxes);
  const answers = await Promise.all(all.map(served));
  expect(answers[0]).toMatch(/^[0-9a-f]{32}$/);
  expect(new Set(answers).size).toBe(1);
  const look = "cat /etc/machine-id /proc/sys/kernel/random/boot_id /run/e2b/.E2B_SANDBOX_ID; echo; hostname";
  const seen = await Promise.all(
    all.map(async ({ sandboxId }) => (await shell(server.data, sandboxId, look)).split("\n")),
  );
  for (const at of [0, 1, 2]) expect(new Set(seen.map((lines) => lines[at])).size).toBe(all.length);
  expect(seen.map((lines) => lines.slice(2))).toEqual(all.map(({ sandboxId }) => [sandboxId, "e2b.local"]));
});

test("neither a sandbox nor the template has another team's secret in memory or files", async () => {
  const every = Object.values(secrets).flatMap((own) => Object.values(own));
  const { disks } = server.machine.parts;
  expect(await wordsIn([disks.checkpointsFolder, disks.imagesFolder], every)).toEqual(new Set());
  for (const team of TEAMS) {
    const found = await wordsOf(sandboxes[team], every);
    const { variable = "", file = "", memory = "" } = secrets[team];
    // Else the search itself is blind.
    expect([variable, file, memory].filter((word) => !found.has(word))).toEqual([]);
    const others = TEAMS.filter((other) => other !== team).flatMap((other) => Object.entries(secrets[other]));
    expect(others.filter(([, word]) => found.has(word))).toEqual([]);
    expect([...found].filter((word) => word === secrets[team].key)).toEqual([]);
  }
});

test("if the checkpoint no longer fits, sandboxes run the start command until a new one exists", async () => {
  const [kept = ""] = await server.store.buildsInUse.checkpoints();
  const { manifest } = server.machine.parts.checkpoints.folderOf(kept);
  const { memory, ...rest } = JSON.parse(readFileSync(manifest, "utf8"));
  writeFileSync(manifest, JSON.stringify({ ...rest, memory: { ...memory, kernel: "99.1.0" } }));
  const create = async () => {
    const sandbox = await Sandbox.create(templateId, options(server.apiKey));
    return await served(sandbox).finally(() => sandbox.kill());
  };
  const textOf = (event: string) => server.log.filter((line) => line.includes(event));
  const before = await served(sandboxes.one);
  const anew = await Promise.all([create(), create()]);
  expect(new Set([before, ...anew]).size).toBe(3);
  const isKeptAgain = "a template's started processes were checkpointed again";
  await until("it is kept again", () => textOf(isKeptAgain).length > 0, 30_000);
  const restored = await Promise.all([create(), create()]);
  expect(new Set(restored).size).toBe(1);
  expect([before, ...anew]).not.toContain(restored[0] ?? "");
  expect(textOf("a template's started processes cannot be restored").map((line) => JSON.parse(line))).toEqual([
    expect.objectContaining({ level: "warn", template: templateId, reason: expect.stringContaining("99.1.0") }),
  ]);
  await until("the old memory is gone", async () => !(await server.machine.parts.checkpoints.list()).includes(kept));
  expect(await served(sandboxes.two)).toBe(before);
});
