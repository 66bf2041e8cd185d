/**
 * Places a secret wherever a client or the operator can give one, runs a sandbox with them, and then searches the
 * server's output, responses, arguments and environments of all processes, and all files.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { ociImage, writeLayout } from "../../../src/host/testing/oci-image.ts";
import { OUTSIDE } from "../../../src/host/testing/outer-network.ts";
import { tar } from "../../../src/host/testing/tar.ts";
import { run } from "../../../src/system/command.ts";
import { DataFolder } from "../../../src/system/data-folder.ts";
import { type Place, ProcessWatch } from "../../support/processes/process-watch.ts";
import { sandlotKeys } from "../../support/sandlot-keys.ts";
import { newDataFolder } from "../../support/server.ts";
import { serverOfFile } from "../../support/server-of-file.ts";
import { startBadRegistry } from "../../support/services/registry.ts";
import { until } from "../../support/until.ts";

const PORT = 5013;
const LIFE_MS = 300_000;
const newSecret = (of: string) => `planted-${of}-${crypto.randomUUID().replaceAll("-", "")}`;
const given = {
  environment: newSecret("environment"),
  variable: newSecret("variable"),
  commandVariable: newSecret("command-variable"),
  buildVariable: newSecret("build-variable"),
  proxyPassword: newSecret("proxy"),
  newProxyPassword: newSecret("new-proxy"),
  registryPassword: newSecret("registry"),
  webhookSecret: newSecret("webhook"),
  content: newSecret("content"),
  input: newSecret("input"),
  mistaken: newSecret("mistaken"),
};
/** Secrets that the server makes and gives out. */
const made = {
  apiKey: "",
  accessToken: "",
  runtimeToken: "",
  forksToken: "",
  trafficToken: "",
  volumeToken: "",
  fileSignature: "",
  uploadSignature: "",
};

/** Requests to a proxy of the operator's environment. */
const proxied: string[] = [];
const proxy = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch({ method, url, headers }) {
    proxied.push(`${method} ${url} ${JSON.stringify([...headers])}`);
    return new Response("no", { status: 502 });
  },
});
const proxyUrl = `http://127.0.0.1:${proxy.port}`;

const server = serverOfFile("secrets", {
  OPERATORS_SECRET: given.environment,
  HTTP_PROXY: proxyUrl,
  http_proxy: proxyUrl,
  HTTPS_PROXY: proxyUrl,
  SANDLOT_WEBHOOKS_INSIDE: "allow",
  SANDLOT_REGISTRIES: `http://${OUTSIDE}:${PORT}`,
});

let watch: ProcessWatch;
let source: Awaited<ReturnType<typeof startBadRegistry>>;
const received: string[] = [];
const receiver = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  async fetch(request) {
    received.push(`${JSON.stringify([...request.headers])} ${await request.text()}`);
    return new Response("no", { status: 500 });
  },
});
/** All responses that should contain no secret. */
const answers: string[] = [];

async function call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
  const response = await fetch(`${server().url}${path}`, {
    method,
    headers: { "X-API-Key": server().apiKey, ...headers },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  answers.push(`${method} ${path}: ${response.status} ${text}`);
  return { status: response.status, body: text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : text };
}

async function failedBuild(name: string, start: Record<string, unknown>): Promise<void> {
  const { templateID, buildID } = (await call("POST", "/v3/templates", { name })).body;
  expect((await call("POST", `/v2/templates/${templateID}/builds/${buildID}`, start)).status).toBe(202);
  const status = `/templates/${templateID}/builds/${buildID}/status`;
  await until(`${name} has failed`, async () => (await call("GET", status)).body.status === "error", LIFE_MS);
  await call("GET", `/templates/${templateID}/builds/${buildID}/logs`);
  const link = (await call("GET", `/templates/${templateID}/files/${"ab".repeat(32)}`)).body.url;
  made.uploadSignature = new URL(link).searchParams.get("signature") ?? "";
  answers.pop();
  await fetch(link, { method: "PUT", body: "no archive" });
}

async function mistakes(): Promise<void> {
  const { mistaken } = given;
  const envVars = { A: mistaken };
  await call("POST", "/sandboxes", { templateID: "nowhere", envVars });
  await call("POST", "/sandboxes", { templateID: "base", envVars: { ...envVars, B: 5 } });
  await call("POST", "/sandboxes", { templateID: "base", envVars, timeout: "x" });
  await call("POST", "/sandboxes", `{"templateID": "base", "envVars": {"A": "${mistaken}}`);
  await call("POST", "/sandboxes", `${mistaken}`);
  await call("POST", "/sandboxes", { templateID: "base", secure: mistaken, metadata: mistaken });
  for (const address of [`user:${mistaken}@proxy.test:1080`, `socks5://u:${mistaken}@proxy.test:1080`]) {
    await call("POST", "/v2/sandboxes", { templateID: "base", network: { egressProxy: { address } } });
  }
  const egressProxy = { address: "10.1.2.3:1080", username: "u", password: mistaken.repeat(40) };
  await call("POST", "/v2/sandboxes", { templateID: "base", network: { egressProxy } });
  await call("POST", "/events/webhooks", { name: "x", url: "ftp://x", events: ["nope"], signatureSecret: mistaken });
  await call("GET", "/sandboxes", undefined, { "X-API-Key": mistaken });
  await call("GET", "/sandboxes", undefined, { "X-API-Key": `e2b_${mistaken}` });
  await call("GET", "/teams", undefined, { Authorization: `Bearer ${mistaken}` });
  await call("GET", "/teams", undefined, { Authorization: mistaken });
  await call("GET", "/volumecontent/00000000-0000-4000-8000-000000000000/path?path=x", undefined, {
    Authorization: `Bearer ${mistaken}.${mistaken}.${mistaken}`,
  });
  await call("PUT", `/templates/x/files/${"ab".repeat(32)}?signature=${"0".repeat(64)}&expires=1&bytes=1`, mistaken);
  const registries = { type: "registry", username: "u", password: mistaken };
  const build = (await call("POST", "/v3/templates", { name: "mistaken" })).body;
  const path = `/v2/templates/${build.templateID}/builds/${build.buildID}`;
  await call("POST", path, { fromImage: "De bian", fromImageRegistry: registries });
  await call("POST", path, { fromImage: "debian", fromImageRegistry: { ...registries, type: mistaken } });
  await call("POST", path, { fromTemplate: "base", steps: [{ type: "ENV", args: ["A=", mistaken, "B"] }] });
}

beforeAll(async () => {
  watch = await ProcessWatch.start(Object.values(given));
  const layout = newDataFolder("secrets-layout");
  writeLayout(
    layout,
    ociImage({ layers: [tar([{ name: "etc/passwd", content: "root:x:0:0:root:/root:/bin/sh\n" }])] }),
  );
  source = await startBadRegistry(layout, OUTSIDE, PORT);

  made.accessToken = await sandlotKeys(server(), "token", "secrets");
  const bearer = { Authorization: `Bearer ${made.accessToken}` };
  const [{ teamID }] = (await call("GET", "/teams", undefined, bearer)).body;
  answers.pop();
  made.apiKey = (await call("POST", "/api-keys", { name: "made" }, { ...bearer, "X-Team-ID": teamID })).body.key;
  answers.pop();
  const hook = { name: "hook", url: `http://127.0.0.1:${receiver.port}/hook`, signatureSecret: given.webhookSecret };
  const events = ["sandbox.lifecycle.created", "sandbox.lifecycle.paused", "sandbox.lifecycle.killed"];
  const webhook = (await call("POST", "/events/webhooks", { ...hook, events })).body.id;
  const volume = (await call("POST", "/volumes", { name: "volume" })).body;
  answers.pop();
  made.volumeToken = volume.token;
  const content = `/volumecontent/${volume.volumeID}/file?path=`;
  await call("PUT", `${content}/secret`, given.content, { Authorization: `Bearer ${volume.token}` });
  await call("GET", `${content}/absent`, undefined, { Authorization: `Bearer ${volume.token}` });

  const options = { ...server().options, apiKey: made.apiKey };
  const egressProxy = { address: "proxy.test:1080", username: "user", password: given.proxyPassword };
  const sandbox = await Sandbox.create({
    ...options,
    envs: { VARIABLE: given.variable },
    network: { allowPublicTraffic: false, egressProxy },
    timeoutMs: 600_000,
  });
  const { sandboxId } = sandbox;
  made.trafficToken = sandbox.trafficAccessToken ?? "";
  made.runtimeToken = (await call("POST", `/sandboxes/${sandboxId}/connect`, { timeout: 600 })).body.envdAccessToken;
  answers.pop();
  expect([made.trafficToken.length, made.runtimeToken.length]).toEqual([64, 64]);
  await watch.tell(Object.values(made).filter((text) => text !== ""));

  const { stdout } = await sandbox.commands.run("env; cat /proc/1/environ; cat /proc/*/cmdline", {
    envs: { COMMAND: given.commandVariable },
    user: "root",
  });
  expect(stdout).toContain(given.variable);
  expect(stdout).not.toContain(given.environment);
  const cat = await sandbox.commands.run("cat > /dev/null", { background: true, stdin: true });
  await sandbox.commands.sendStdin(cat.pid, given.input);
  await watch.tell([]);
  await cat.kill();
  await sandbox.files.write("secret", given.content);
  const signed = new URL(await sandbox.downloadUrl("secret", { useSignatureExpiration: 60_000 }));
  made.fileSignature = signed.searchParams.get("signature") ?? "";
  for (const path of [`${signed.pathname}${signed.search}`, `${signed.pathname}${signed.search}x`]) {
    await fetch(`${server().url}${path}`);
  }
  await sandbox.commands.run("false").catch(() => undefined);
  const [fork] = (await call("POST", `/sandboxes/${sandboxId}/fork`, { timeout: 600 })).body;
  answers.pop();
  made.forksToken = fork.sandbox.envdAccessToken;
  const network = { egressProxy: { ...egressProxy, password: given.newProxyPassword } };
  expect((await call("PUT", `/sandboxes/${sandboxId}/network`, network)).status).toBe(204);
  await sandbox.createSnapshot();
  await sandbox.pause();
  await Sandbox.connect(sandboxId, { ...options, timeoutMs: 600_000 });
  await mistakes();
  const credentials = { type: "registry", username: "reader", password: given.registryPassword };
  await Promise.all([
    failedBuild("from-registry", { fromImage: `${source.name}/private-image:1`, fromImageRegistry: credentials }),
    failedBuild("with-variable", {
      fromTemplate: "base",
      steps: [
        { type: "ENV", args: ["KEY", given.buildVariable] },
        { type: "RUN", args: ['test -n "$KEY" && exit 3'] },
      ],
    }),
  ]);
  for (const path of [
    `/sandboxes/${sandboxId}`,
    "/v2/sandboxes",
    "/snapshots",
    "/v2/templates",
    "/events/sandboxes",
    `/sandboxes/${sandboxId}/logs`,
    `/v2/sandboxes/${sandboxId}/logs`,
    "/events/webhooks",
    `/events/webhooks/${webhook}/deliveries`,
    "/volumes",
  ]) {
    expect([path, (await call("GET", path)).status]).toEqual([path, 200]);
  }
  for (const [name, secret] of Object.entries(made)) expect([name, secret.length > 20]).toEqual([name, true]);
  await until("the webhook was tried", () => received.length > 0);
});
afterAll(async () => {
  await watch[Symbol.asyncDispose]();
  await source[Symbol.asyncDispose]();
  receiver.stop(true);
  proxy.stop(true);
});

// Guards against a server that keeps these variables: control secrets then go to the proxy, before any sandbox is up.
test("the server ignores proxies of its environment", () => {
  expect(proxied).toEqual([]);
});

const SEARCHED_MAX = "16M";

/** Files of the server, without the content of sandboxes' disks, memory and volumes, which belongs to tenants. */
async function files(): Promise<{ path: string; mode: number; content: string }[]> {
  const { path, runFolder } = new DataFolder(server().dataFolder);
  // The server has its own mount namespace, in which `disks` may be a separate filesystem.
  const world = `/proc/${server().pid}/root`;
  const own = ["-name", "memory", "-prune", "-o", "-name", "memory.pack", "-o", "-name", "*.img", "-o"];
  const folders = [path, join(path, "disks"), runFolder].map((folder) => world + folder);
  const found = await run(["find", ...folders, "-xdev", ...own, "-type", "f", "-size", `-${SEARCHED_MAX}`, "-print0"]);
  return [...new Set(found.split("\0"))].flatMap((name) => {
    if (name === "") return [];
    try {
      const { mode } = statSync(name);
      return [{ path: name.slice(world.length), mode: mode & 0o777, content: readFileSync(name, "latin1") }];
    } catch {
      return [];
    }
  });
}

/** The kind of place that a path names, without ids, tags and numbers. */
const kindOf = (path: string) =>
  path
    .replace(/^.*\/store\.sqlite(?:-wal|-shm)?$/, "store")
    .replace(/^.*\/sandboxes\/[^/]+\//, "run folder of the sandbox: ")
    .replace(/^.*\//, "");

function secretsIn(text: string, secrets: Record<string, string>): string[] {
  return Object.entries(secrets).flatMap(([name, secret]) => (text.includes(secret) ? [name] : []));
}

test("no secret is in the server's output", () => {
  expect(secretsIn(server().output(), { ...given, ...made })).toEqual([]);
  expect(server().output()).toContain('"event":"request"');
});

test("no secret is in a response, an error, a list, or a log of a sandbox or build", () => {
  // A caller that may read a sandbox receives its tokens.
  const { runtimeToken: _, forksToken: __, ...secrets } = { ...given, ...made };
  const leaks = answers.flatMap((answer) => secretsIn(answer, secrets).map((name) => [name, answer]));
  expect(leaks).toEqual([]);
  // The mistakes were answered as such.
  expect(answers.filter((answer) => /: 40[01] /.test(answer)).length).toBeGreaterThan(15);
  expect(answers.filter((answer) => answer.includes('"status":"error"')).length).toBe(2);
});

test("no secret is in a webhook message", () => {
  expect(secretsIn(received.join("\n"), { ...given, ...made })).toEqual([]);
});

test("no secret is in the arguments or environment of a process that was not given it", () => {
  const inside = [given.variable, given.commandVariable, given.buildVariable];
  // A child that is not yet another program is the server still.
  const own = readFileSync(`/proc/${server().pid}/cmdline`, "latin1").replaceAll("\0", " ").trim();
  const isRight = ({ where, text, command, nested }: Place) =>
    where === "environ" && (nested ? inside.includes(text) : command === own && text === given.environment);
  expect(watch.found.filter((place) => !isRight(place))).toEqual([]);
  // The watch works: it saw secrets that are somewhere for a while.
  const seen = watch.found.map(({ text }) => text);
  expect([seen.includes(given.environment), seen.includes(given.variable)]).toEqual([true, true]);
});

// docs/security.md has the same table, with the reasons.
test("each secret is only in the files that need it, readable by root", async () => {
  const where: Record<string, string[]> = {};
  for (const { path, mode, content } of await files()) {
    for (const name of secretsIn(content, { ...given, ...made, firstKey: server().apiKey })) {
      where[name] = [...new Set([...(where[name] ?? []), kindOf(path)])].toSorted();
      expect([path, mode]).toEqual([path, 0o600]);
    }
  }
  const settings = "run folder of the sandbox: settings.json";
  const record = "run folder of the sandbox: record.json";
  expect(where).toEqual({
    firstKey: ["api-key"],
    variable: [settings, "store"],
    runtimeToken: [settings, "store"],
    forksToken: [settings, "store"],
    trafficToken: ["store"],
    proxyPassword: [record, "store"],
    newProxyPassword: [record, "store"],
    webhookSecret: ["store"],
  });
});
