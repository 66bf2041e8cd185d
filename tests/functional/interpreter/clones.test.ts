/**
 * Random numbers in sandboxes of the template. All of them start from the same memory, in which the kernels already
 * run; docs/security.md lists what they still share.
 */
import { expect, test } from "bun:test";
import { type Execution, Sandbox } from "@e2b/code-interpreter";
import { LONG } from "../../../src/base/testing/long.ts";
import { templateServer } from "../../support/template-server.ts";

const server = templateServer("code-interpreter-v1");

const CLONES = LONG ? 20 : 3;
/** Each has kernels of some hundred megabytes. */
const CLONES_AT_ONCE = 3;
/** The clones take a minute on an idle machine. */
const CLONES_MS = 400_000;

/** Prints what it draws, by the name of the generator. The TLS hello has 32 random bytes, and a new key. */
const PYTHON = `
import json, random, secrets, ssl, tempfile, uuid
import numpy as np

def hello():
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()

sent = hello()
print(json.dumps({
    "random": random.random(),
    "numpy.random": np.random.rand(),
    "numpy.random.default_rng": np.random.default_rng().random(),
    "uuid4": str(uuid.uuid4()),
    "secrets": secrets.token_hex(),
    "OpenSSL": ssl.RAND_bytes(16).hex(),
    "random bytes of TLS": sent[11:43].hex(),
    "key of TLS": sent[-32:].hex(),
    "tempfile": tempfile.mktemp(),
}))`;

const JAVASCRIPT = `
import { randomBytes, randomInt, generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import net from "node:net";
import tls from "node:tls";

const listener = net.createServer().listen(0, "127.0.0.1");
await once(listener, "listening");
const client = tls.connect({ port: listener.address().port, host: "127.0.0.1" }).on("error", () => undefined);
const [socket] = await once(listener, "connection");
const [sent] = await once(socket, "data");
client.destroy();
socket.destroy();
listener.close();
console.log(JSON.stringify({
  "Math.random": Math.random(),
  randomUUID: crypto.randomUUID(),
  getRandomValues: Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString("hex"),
  randomBytes: randomBytes(16).toString("hex"),
  randomInt: [randomInt(2 ** 47), randomInt(2 ** 47)].join(),
  "key pair": generateKeyPairSync("ed25519").publicKey.export({ format: "jwk" }).x,
  "random bytes of TLS": sent.subarray(11, 43).toString("hex"),
  "key of TLS": sent.subarray(-32).toString("hex"),
}))`;

type Drawn = Record<string, string | number>;

async function drawnBy(sandbox: Sandbox, code: string, language: string): Promise<Drawn> {
  return drawn(await sandbox.runCode(code, { language }));
}

/** Draws in a new context, whose kernel already runs in the snapshot. */
async function drawnInNewContext(sandbox: Sandbox, code: string, language: string): Promise<Drawn> {
  return drawn(await sandbox.runCode(code, { context: await sandbox.createCodeContext({ language }) }));
}

function drawn({ logs, error }: Execution): Drawn {
  if (error !== undefined) throw new Error(`${error.name}: ${error.value}\n${error.traceback}`);
  return JSON.parse(logs.stdout.join("")) as Drawn;
}

/** Names of generators that drew the same more than once. */
function drawnTwice(all: readonly Drawn[]): string[] {
  return Object.keys(all[0] ?? {}).filter((name) => new Set(all.map((drawn) => drawn[name])).size < all.length);
}

interface Draws {
  python: Drawn;
  pythonOfNewContext: Drawn;
  javascript: Drawn;
  javascriptOfNewContext: Drawn;
}

async function drawsOf(sandbox: Sandbox): Promise<Draws> {
  return {
    python: await drawnBy(sandbox, PYTHON, "python"),
    pythonOfNewContext: await drawnInNewContext(sandbox, PYTHON, "python"),
    javascript: await drawnBy(sandbox, JAVASCRIPT, "javascript"),
    javascriptOfNewContext: await drawnInNewContext(sandbox, JAVASCRIPT, "javascript"),
  };
}

test(
  `all generators differ in ${CLONES} sandboxes of the template, also in a new context`,
  async () => {
    const draws: Draws[] = [];
    while (draws.length < CLONES) {
      const clones = await Promise.all(Array.from({ length: CLONES_AT_ONCE }, () => Sandbox.create(server().options)));
      draws.push(...(await Promise.all(clones.map(drawsOf))));
      await Promise.all(clones.map((clone) => clone.kill()));
    }
    const python = draws.flatMap((each) => [each.python, each.pythonOfNewContext]);
    expect(Object.keys(python[0] ?? {}).length).toBe(9);
    expect(drawnTwice(python)).toEqual([]);
    const javascript = draws.flatMap((each) => [each.javascript, each.javascriptOfNewContext]);
    expect(Object.keys(javascript[0] ?? {}).length).toBe(8);
    expect(drawnTwice(javascript)).toEqual([]);
  },
  CLONES_MS,
);

test("all generators differ in copies of a notebook, except generators made by the user", async () => {
  const original = await Sandbox.create(server().options);
  const languages = [
    { language: "python", code: PYTHON },
    { language: "javascript", code: JAVASCRIPT },
  ];
  for (const { language, code } of languages) await drawnBy(original, code, language);
  await original.runCode("own = np.random.default_rng(1); own.random()");
  const copies = (await original.fork({ count: 3, timeoutMs: 600_000 })).filter((fork) => fork instanceof Sandbox);
  const all = [original, ...copies];
  for (const { language, code } of languages) {
    expect(drawnTwice(await Promise.all(all.map((sandbox) => drawnBy(sandbox, code, language))))).toEqual([]);
  }
  const own = await Promise.all(all.map(async (sandbox) => (await sandbox.runCode("own.random()")).text));
  expect(new Set(own).size).toBe(1);
  await Promise.all(all.map((sandbox) => sandbox.kill()));
});

test("values that kernels drew at their start are equal in all sandboxes; child processes draw their own", async () => {
  const clones = await Promise.all([1, 2].map(() => Sandbox.create(server().options)));
  const request = "import subprocess, sys\nown = [sys.executable, '-c', 'print(hash(\"word\"))']\n";
  const print = "print(hash('word'), id(sys), subprocess.check_output(own, text=True))";
  const seen = await Promise.all(
    clones.map(async (clone) => (await clone.runCode(request + print)).logs.stdout.join("")),
  );
  const [one = [], other = []] = seen.map((line) => line.trim().split(" "));
  expect(one).toHaveLength(3);
  expect([one[0], one[1]]).toEqual([other[0], other[1]]);
  expect(one[2]).not.toBe(other[2]);
  await Promise.all(clones.map((clone) => clone.kill()));
});
