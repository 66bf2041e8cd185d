/**
 * What sandboxes of the template draw at random. All of them begin with the same memory, in which the kernels run
 * already; what they share all the same is in docs/security.md.
 */
import { expect, test } from "bun:test";
import { Sandbox } from "@e2b/code-interpreter";
import { templateServer } from "../../support/template-server.ts";

const server = templateServer("code-interpreter-v1");

const CLONES = 20;
/** Each has kernels of some hundred megabytes. */
const CLONES_AT_ONCE = 5;

/** Prints what it draws, by the name of the generator. The hello of TLS has 32 random bytes, and a key made for it. */
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

type Drawn = Record<string, string | number>;

async function drawnBy(sandbox: Sandbox, code: string, language: string): Promise<Drawn> {
  const { logs, error } = await sandbox.runCode(code, { language });
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
}

async function drawsOf(sandbox: Sandbox): Promise<Draws> {
  const python = await drawnBy(sandbox, PYTHON, "python");
  // From a kernel that runs in the snapshot as well, for whoever asks for it.
  const context = await sandbox.createCodeContext({ language: "python" });
  const { logs } = await sandbox.runCode(PYTHON, { context });
  return { python, pythonOfNewContext: JSON.parse(logs.stdout.join("")) as Drawn };
}

test(`in ${CLONES} sandboxes of the template all generators differ, also in a context that is new`, async () => {
  const draws: Draws[] = [];
  while (draws.length < CLONES) {
    const clones = await Promise.all(Array.from({ length: CLONES_AT_ONCE }, () => Sandbox.create(server().options)));
    draws.push(...(await Promise.all(clones.map(drawsOf))));
    await Promise.all(clones.map((clone) => clone.kill()));
  }
  const python = draws.flatMap((each) => [each.python, each.pythonOfNewContext]);
  expect(Object.keys(python[0] ?? {}).length).toBe(9);
  expect(drawnTwice(python)).toEqual([]);
});

test("in copies of a notebook they differ, too; a generator that the user has made goes on the same", async () => {
  const original = await Sandbox.create(server().options);
  await drawnBy(original, PYTHON, "python");
  await original.runCode("own = np.random.default_rng(1); own.random()");
  const copies = (await original.fork({ count: 3 })).filter((fork) => fork instanceof Sandbox);
  const all = [original, ...copies];
  expect(drawnTwice(await Promise.all(all.map((sandbox) => drawnBy(sandbox, PYTHON, "python"))))).toEqual([]);
  const own = await Promise.all(all.map(async (sandbox) => (await sandbox.runCode("own.random()")).text));
  expect(new Set(own).size).toBe(1);
  await Promise.all(all.map((sandbox) => sandbox.kill()));
});
