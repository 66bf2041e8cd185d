/** The runner's messages and requests. Each write is short enough for the pipe to accept it atomically. */
import { Buffer } from "node:buffer";
import { writeSync } from "node:fs";
import { Socket } from "node:net";
import process from "node:process";

const FRAME_MAX_BYTES = 4_000;
const REQUESTS = 3;
const FULL_WAIT_MS = 2;

export interface Request {
  number: number;
  kind: "cell" | "variables" | "folder" | "reseed" | "interrupt";
  name: string;
  source: string;
  isAsync: boolean;
  hasValue: boolean;
  shift: number;
  names: string[];
  variables: Record<string, string | null>;
  folder: string;
}

let token = "";

/** The first line is the token, which the runner acknowledges. Each further line is a request. */
export function listen(take: (request: Request) => void): void {
  const socket = new Socket({ fd: REQUESTS, readable: true, writable: false });
  let rest = "";
  socket.setEncoding("utf8").on("data", (text: string) => {
    rest += text;
    for (let end = rest.indexOf("\n"); end !== -1; end = rest.indexOf("\n")) {
      const line = rest.slice(0, end);
      rest = rest.slice(end + 1);
      if (token !== "") {
        take(JSON.parse(line));
        continue;
      }
      token = line;
      done(0, {});
    }
  });
  // The server is gone.
  socket.on("close", () => process.kill(process.pid, "SIGKILL"));
}

export function say(message: object): void {
  const bytes = Buffer.from(JSON.stringify(message));
  const isShort = bytes.length <= FRAME_MAX_BYTES;
  for (let at = 0; at < bytes.length; at += FRAME_MAX_BYTES) {
    const isLast = at + FRAME_MAX_BYTES >= bytes.length;
    const kind = isShort ? ":" : isLast ? ">" : at === 0 ? "<" : "+";
    writeFrame(1, kind, bytes.subarray(at, at + FRAME_MAX_BYTES));
  }
}

/** Reports the end of a request in both streams, behind all output of the request. */
export function done(number: number, more: object): void {
  const message = Object.assign({ done: number }, more);
  try {
    writeFrame(2, ":", Buffer.from(JSON.stringify({ done: number })));
  } catch {
    // The cell has closed its stderr.
  }
  say(message);
}

function writeFrame(fd: number, kind: ":" | "<" | "+" | ">", part: Buffer): void {
  const frame = Buffer.concat([Buffer.from(`\x1e${token}${kind}`), part, Buffer.from("\x1f")]);
  for (let at = 0; at < frame.length; ) {
    try {
      at += writeSync(fd, frame, at);
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== "EAGAIN") throw thrown;
      // Another program that shares the pipe has made it non-blocking.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FULL_WAIT_MS);
    }
  }
}
