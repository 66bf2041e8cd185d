/** Sends one HTTP/1.1 request exactly as written: no client library normalises its path, method or Host header. */
import { connect } from "node:net";
import { unchunked } from "../../src/base/testing/unchunked.ts";

export interface RawRequest {
  method?: string;
  /** The request target, exactly as in the request line. */
  target: string;
  host?: string;
  headers?: Record<string, string>;
  body?: string;
}

interface RawAnswer {
  status: number;
  headers: Headers;
  body: string;
}

const ANSWER_MS = 120_000;

export async function rawRequest(serverUrl: string, request: RawRequest): Promise<RawAnswer> {
  const { hostname, port, host } = new URL(serverUrl);
  const body = request.body ?? "";
  const headers = {
    Host: request.host ?? host,
    Connection: "close",
    ...(body === "" ? {} : { "Content-Length": String(Buffer.byteLength(body)) }),
    ...request.headers,
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = `${request.method ?? "GET"} ${request.target} HTTP/1.1\r\n${lines.join("")}\r\n`;
  return parse(await exchange(hostname, Number(port), head + body));
}

/** Sends a whole request exactly as given, with nothing added. */
export async function rawText(serverUrl: string, text: string): Promise<RawAnswer> {
  const { hostname, port } = new URL(serverUrl);
  return parse(await exchange(hostname, Number(port), text));
}

function exchange(hostname: string, port: number, request: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = [];
    const socket = connect(port, hostname, () => socket.write(request));
    socket.setTimeout(ANSWER_MS, () => socket.destroy(new Error(`no end of the answer within ${ANSWER_MS} ms`)));
    socket.on("data", (piece: Buffer) => pieces.push(piece));
    socket.on("error", reject);
    socket.on("close", () => resolve(Buffer.concat(pieces)));
  });
}

function parse(answer: Buffer): RawAnswer {
  const headEnd = answer.indexOf("\r\n\r\n");
  if (headEnd < 0) throw new Error(`no HTTP answer: ${answer.toString("latin1").slice(0, 200)}`);
  const [statusLine = "", ...lines] = answer.subarray(0, headEnd).toString("latin1").split("\r\n");
  const headers = new Headers();
  for (const line of lines) headers.append(line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim());
  const rest = answer.subarray(headEnd + 4);
  const isChunked = headers.get("transfer-encoding")?.toLowerCase() === "chunked";
  const body = (isChunked ? unchunked(rest) : rest).toString("utf8");
  return { status: Number(statusLine.split(" ")[1]), headers, body };
}
