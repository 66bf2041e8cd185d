/** Commands of the host in a sandbox with a hostile guest: the host is neither misled nor blocked. */
import { afterEach, expect, test } from "bun:test";
import { untilStill } from "../../base/testing/until.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";
import { envelope, GUEST_MESSAGE_MAX_BYTES } from "./connect-stream.ts";
import { GuestCommands } from "./guest-commands.ts";

const ADDRESS = "127.81.7.2";
const signal = new AbortController().signal;
const command = { argv: ["/bin/true"] as const, user: "jürgen", cwd: "/", envVars: { A: "1" } };
const b64 = (text: string) => Buffer.from(text).toString("base64");
const started = envelope({ event: { start: { pid: 7 } } });
const over = envelope({});
over[0] = 2;

let server: ReturnType<typeof Bun.serve> | undefined;
afterEach(async () => {
  await server?.stop(true);
  server = undefined;
});

function guest(response: (request: Request) => Response | Promise<Response>): GuestCommands {
  server = Bun.serve({ hostname: ADDRESS, port: RUNTIME_PORT, fetch: response });
  return new GuestCommands(ADDRESS, "token");
}

const saying = (...pieces: Uint8Array[]) => guest(() => new Response(Buffer.concat(pieces)));
const endless = (piece: Uint8Array) =>
  new Response(new ReadableStream({ pull: (controller) => controller.enqueue(piece) }));

async function outputOf(commands: GuestCommands) {
  const output = { stdout: "", stderr: "" };
  const end = await commands.run(
    command,
    (chunk, from) => {
      output[from] += Buffer.from(chunk).toString();
    },
    signal,
  );
  return { ...end, ...output };
}

test("a command is sent with user and token, and returns its output and exit code", async () => {
  const received: { headers: Headers; body: Buffer }[] = [];
  const commands = guest(async (request) => {
    received.push({ headers: request.headers, body: Buffer.from(await request.arrayBuffer()) });
    return new Response(
      Buffer.concat([
        started,
        envelope({ event: { data: { stdout: b64("o€") } } }),
        envelope({ event: { keepalive: {} } }),
        envelope({ event: { data: { stderr: b64("e") } } }),
        envelope({ event: { end: { exitCode: 3, exited: true, status: "exit status 3" } } }),
        over,
      ]),
    );
  });
  expect(await outputOf(commands)).toEqual({ exitCode: 3, signal: "", stdout: "o€", stderr: "e" });
  const [request] = received;
  expect(request?.headers.get("x-access-token")).toBe("token");
  expect(request?.headers.get("authorization")).toBe(`Basic ${b64("jürgen:")}`);
  expect(JSON.parse(request?.body.subarray(5).toString() ?? "")).toEqual({
    process: { cmd: "/bin/true", args: [], envs: { A: "1" }, cwd: "/" },
    stdin: false,
  });
});

test("a command that was signalled returns the signal's name", async () => {
  const end = envelope({ event: { end: { exitCode: -1, status: "signal: killed" } } });
  expect(await outputOf(saying(started, end, over))).toMatchObject({ exitCode: -1, signal: "signal: killed" });
});

test("an error of the guest is passed on with its message", async () => {
  const failed = envelope({ error: { code: "invalid_argument", message: "no such folder" } });
  failed[0] = 2;
  await expect(outputOf(saying(failed))).rejects.toMatchObject({ status: 422, message: "no such folder" });
  await server?.stop(true);
  const commands = guest(() => Response.json({ code: 401, message: "no user jürgen" }, { status: 401 }));
  await expect(outputOf(commands)).rejects.toMatchObject({ status: 422, message: "no user jürgen" });
});

const huge = new Uint8Array(5);
new DataView(huge.buffer).setUint32(1, GUEST_MESSAGE_MAX_BYTES + 1);
const flagged = envelope({});
flagged[0] = 1;
const text = envelope("text");

test.each<[string, () => Response]>([
  ["nothing", () => new Response("")],
  ["half a message", () => new Response(started.subarray(0, 9))],
  ["a message without end", () => endless(huge)],
  ["unknown flags", () => new Response(flagged)],
  ["no object", () => new Response(text)],
  ["no JSON", () => new Response(Buffer.concat([started.subarray(0, 5), Buffer.alloc(started.length - 5)]))],
  ["an end before the start", () => new Response(envelope({ event: { end: {} } }))],
  ["no end", () => new Response(Buffer.concat([started, over]))],
  ["a redirect", () => Response.redirect("http://127.0.0.1:1/")],
  ["an error without words", () => new Response(null, { status: 500 })],
  ["an error without end", () => endless(Buffer.alloc(1024, 0x20))],
])("a guest that answers %s has run nothing", async (_, response) => {
  await expect(outputOf(guest(response))).rejects.toMatchObject({ name: "Fault" });
});

test("fields of a wrong type are ignored", async () => {
  const end = envelope({ event: { end: { exitCode: "0", exited: "yes", status: 5 } } });
  const data = envelope({ event: { data: { stdout: 5, stderr: { a: 1 } } } });
  expect(await outputOf(saying(started, data, end, over))).toEqual({ exitCode: 0, signal: "", stdout: "", stderr: "" });
});

test("a slow reader blocks the command", async () => {
  const piece = envelope({ event: { data: { stdout: b64("x".repeat(30_000)) } } });
  let sent = 0;
  const commands = guest(
    () =>
      new Response(
        new ReadableStream({
          start: (controller) => controller.enqueue(started),
          pull(controller) {
            sent += piece.length;
            controller.enqueue(piece);
          },
        }),
      ),
  );
  const stop = new AbortController();
  const stuck = Promise.withResolvers<void>();
  const ended = commands.run(command, () => stuck.promise, stop.signal);
  expect(await untilStill(() => sent)).toBeLessThan(64 * 1024 * 1024);
  stop.abort(new Error("enough"));
  stuck.resolve();
  await expect(ended).rejects.toThrow();
});

test("an aborted command ends at once, also before the guest's response", async () => {
  const commands = guest(() => new Promise<Response>(() => undefined));
  const stop = new AbortController();
  const ended = commands.run(command, () => undefined, stop.signal);
  stop.abort(new Error("cancelled"));
  await expect(ended).rejects.toThrow("cancelled");
  await expect(commands.run(command, () => undefined, stop.signal)).rejects.toThrow("cancelled");
});
