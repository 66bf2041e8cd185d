/** A plain Start and the same one by way of the library, sent to a real daemon: clients see no difference. */
import { describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { guestOfFile } from "../testing/guest-of-file.ts";
import { ProcessCalls, shell } from "../testing/process-calls.ts";
import { basic, envelope } from "../testing/running-guest.ts";

const guest = await guestOfFile();
const processes = new ProcessCalls(guest);

/** The whole answer as it stands on the wire, without what differs between any two. */
function raw(message: object, headers: Record<string, string>): Promise<string> {
  const body = envelope(message);
  const head = {
    "Content-Type": "application/connect+json",
    "Content-Length": String(body.length),
    Connection: "close",
    ...headers,
  };
  const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}\r\n`);
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const chunks: Buffer[] = [];
  const socket = connect(guest.port, "127.0.0.1", () => {
    socket.write(`POST /process.Process/Start HTTP/1.1\r\nHost: x\r\n${lines.join("")}\r\n`);
    socket.write(body);
  });
  socket.on("data", (chunk) => chunks.push(Buffer.from(chunk)));
  socket.on("error", reject);
  socket.on("close", () => resolve(plain(Buffer.concat(chunks).toString("latin1"))));
  return promise;
}

/** How the body is cut into chunks is the sockets' business. */
function plain(answer: string): string {
  const [head = "", body = ""] = answer.split("\r\n\r\n", 2);
  const whole = answer.slice(head.length + 4);
  const joined = /chunked/i.test(head) ? unchunked(whole) : body;
  const sorted = head.split("\r\n").filter((line) => !/^(date|content-length|transfer-encoding):/i.test(line));
  return [...sorted.toSorted(), joined].join("\n").replace(/.{5}\{"event":\{"start":\{"pid":\d+\}\}\}/s, "START");
}

function unchunked(text: string): string {
  let out = "";
  for (let at = 0; at < text.length; ) {
    const line = text.indexOf("\r\n", at);
    const length = Number.parseInt(text.slice(at, line), 16);
    if (!(length > 0)) break;
    out += text.slice(line + 2, line + 2 + length);
    at = line + 2 + length + 2;
  }
  return out;
}

const sh = (script: string) => ({ process: { cmd: "/bin/sh", args: ["-c", script], cwd: "/" } });

// Seen to fail with an exit code of 0 that is written out, with a different message about time, and without END.
describe("the answer is the library's, byte by byte, for", () => {
  test.each<[string, object, Record<string, string>]>([
    ["a process without output", sh("true"), {}],
    ["output", sh("echo out"), {}],
    ["an exit code", sh("exit 3"), {}],
    ["a signal", sh("kill -9 $$"), {}],
    ["errors", sh("echo err >&2; exit 255"), {}],
    ["a user", sh("id -un"), basic("daemon")],
    ["a terminal", { ...sh("tty > /dev/null && echo yes"), pty: { size: { cols: 80, rows: 24 } } }, {}],
    ["no input", { ...sh("cat; echo end"), stdin: false }, {}],
    [
      "a variable and a tag",
      { process: { cmd: "sh", args: ["-c", "echo $A"], envs: { A: "b" }, cwd: "/" }, tag: "x" },
      {},
    ],
    ["a page of another origin", sh("true"), { Origin: "http://page.test" }],
    ["a program that is not there", { process: { cmd: "no-such-program", cwd: "/" } }, {}],
    ["no command", { process: {} }, {}],
    ["no such directory", { process: { cmd: "true", cwd: "/no/such" } }, {}],
    ["no such user", sh("true"), basic("no-such-user")],
    ["an end of its time", sh("sleep 5"), { "Connect-Timeout-Ms": "200" }],
    ["silence", sh("sleep 1.3"), { "Keepalive-Ping-Interval": "1" }],
    ["an unknown version", sh("true"), { "Connect-Protocol-Version": "2" }],
  ])("%s", async (_, message, headers) => {
    const answer = await raw(message, headers);
    expect(answer).toContain("HTTP/1.1 200 OK");
    // With a field that it does not know, and passes over.
    expect(answer).toBe(await raw({ ...message, unknown: 1 }, headers));
  });
});

test("a process lives on when its client has gone, and other calls find it", async () => {
  const { pid, rest } = await processes.start(shell("read -r line; echo $line > /proc/self/fd/1; exit 7"));
  await rest.return(undefined);
  const listed = (await (await guest.call("process.Process/List", {})).json()) as {
    processes: { pid: number; config: object }[];
  };
  expect(listed.processes.find((each) => each.pid === pid)?.config).toEqual({
    cmd: "/bin/sh",
    args: ["-c", "read -r line; echo $line > /proc/self/fd/1; exit 7"],
  });
  await processes.input(pid, "go\n");
  const told = [];
  for await (const { json } of processes.connect({ pid })) told.push(json.event?.end?.exitCode);
  expect(told).toContain(7);
});
