/** HTTP/2 sites that send what Node's own server would not: one must not end the relay, which all sandboxes share. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { connect } from "node:http2";
import { connect as connectTls, createServer, type TLSSocket } from "node:tls";
import { allowing, SANDBOX } from "../testing/relay-fixture.ts";
import { RuleFixture } from "../testing/rule-fixture.ts";
import { TestAuthority } from "../testing/test-authority.ts";

const A = "127.0.0.2";
const PREFACE_BYTES = 24;
const HEAD_BYTES = 9;
const [HEADERS, SETTINGS] = [1, 4];
const [END_STREAM, ACK, END_HEADERS] = [1, 1, 4];
/** `:status` in the static table of HPACK, as a literal that is not indexed. */
const STATUS = 8;

let stack: DisposableStack;
let fixture: RuleFixture;
/** What the site responds. */
let status: string;

function frame(kind: number, flags: number, stream: number, content: Uint8Array): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUIntBE(content.length, 0, 3);
  head[3] = kind;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, content]);
}

/** Responds to each request with `status` and nothing else. */
function serve(socket: TLSSocket): void {
  let bytes = Buffer.alloc(0);
  let hasPreface = false;
  socket.on("error", () => undefined);
  socket.write(frame(SETTINGS, 0, 0, Buffer.alloc(0)));
  socket.on("data", (piece: Buffer) => {
    bytes = Buffer.concat([bytes, piece]);
    if (!hasPreface && bytes.length >= PREFACE_BYTES) {
      hasPreface = true;
      bytes = bytes.subarray(PREFACE_BYTES);
    }
    while (hasPreface && bytes.length >= HEAD_BYTES && bytes.length >= HEAD_BYTES + bytes.readUIntBE(0, 3)) {
      const [kind, flags = 0, stream] = [bytes[3], bytes[4], bytes.readUInt32BE(5)];
      bytes = bytes.subarray(HEAD_BYTES + bytes.readUIntBE(0, 3));
      if (kind === SETTINGS && (flags & ACK) === 0) socket.write(frame(SETTINGS, ACK, 0, Buffer.alloc(0)));
      if (kind !== HEADERS) continue;
      const block = Buffer.concat([Buffer.from([STATUS, status.length]), Buffer.from(status)]);
      // An interim response does not end its stream.
      const isInterim = status.startsWith("1");
      socket.write(frame(HEADERS, isInterim ? END_HEADERS : END_HEADERS | END_STREAM, stream, block));
    }
  });
}

beforeAll(async () => {
  stack = new DisposableStack();
  const sites = stack.use(await TestAuthority.open());
  const certificate = { key: sites.leafKeyPem, cert: await sites.sign("a.test") };
  const site = createServer({ ...certificate, ALPNProtocols: ["h2"] }, serve);
  stack.defer(() => void site.close());
  await new Promise<void>((resolve) => site.listen(0, A, resolve));
  fixture = stack.use(await RuleFixture.open((site.address() as { port: number }).port, sites));
  fixture.inner.table.names.set("a.test", [A]);
  fixture.inner.relay.set(SANDBOX, { ...allowing("a.test"), ruleNames: ["a.test"] });
});
afterAll(() => stack.dispose());

/** The status that the sandbox sees; undefined: the stream was reset. */
async function seenStatus(): Promise<number | undefined> {
  const socket = connectTls({
    host: "127.0.0.1",
    port: fixture.inner.relay.ports.tls,
    servername: "a.test",
    ca: fixture.authority.certificatePem,
    ALPNProtocols: ["h2"],
  });
  const client = connect("https://a.test", { createConnection: () => socket });
  client.on("error", () => undefined);
  const stream = client.request({ ":path": "/" });
  let seen: number | undefined;
  stream.on("response", (head) => {
    seen = head[":status"];
  });
  stream.on("error", () => undefined);
  stream.resume();
  await new Promise<void>((resolve) => stream.once("close", resolve));
  client.destroy();
  return seen;
}

// An exception in a listener would fail the test run, as it would end the relay.
test.each([
  ["999", 502],
  ["600", 502],
  ["abc", undefined],
  ["-1", undefined],
  ["101", undefined],
])("a response with the status %s does not pass", async (each, seen) => {
  status = each;
  expect(await seenStatus()).toBe(seen);
  status = "204";
  expect(await seenStatus()).toBe(204);
});
