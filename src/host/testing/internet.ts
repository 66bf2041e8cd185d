/**
 * The test internet. Every address of it responds on every port below, so that silence means a firewall rule:
 *
 *   TCP and UDP 53   names (internet-names.ts); TCP 853 the same over TLS, /dns-query of 443 over HTTPS
 *   TCP 80, 443      "hello from outside"; /reached tells by which address, name and Host, /bytes/N sends so many
 *                    bytes, /drip a line again and again, ?redirect=URL redirects; /headers replies with the headers,
 *                    /keep/MARK remembers them, one list per request, and /kept/MARK has them; `authorityFile` has the
 *                    authority behind 443
 *   TCP and UDP 7000 an echo, also on UDP 443, where QUIC would be; the datagram "drip" brings "drop" for a minute
 *
 * Received data is counted, so that a test sees what left a sandbox even without a response: /seen?what=TEXT on port 80
 * tells how often TEXT came as the path of a request, as a datagram or as a piece of an echoed connection, and
 * /asked?name=NAME how often a name was queried. Ends with its parent. Argument: folder for the certificate.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { Readable } from "node:stream";
import type { TLSSocket } from "node:tls";
import { makeCertificate } from "./internet-certificate.ts";
import { answerQuestion, count, timesAsked } from "./internet-names.ts";
import { INTERNET_ADDRESSES, INTERNET_PORTS } from "./outer-network.ts";

const DRIP_EVERY_MS = 50;
const DRIP_DATAGRAMS_MS = 60_000;
const PIECE = Buffer.alloc(64 * 1024, "x");
const QUESTION_MAX_BYTES = 65_535;
const KEPT_MARKS_MAX = 1_000;
const KEPT_PER_MARK_MAX = 100;
const tls = await makeCertificate(process.argv[2] ?? "");
const seen = new Map<string, number>();
/** Headers of requests by mark: each list begins with `@` and the address, then name, value, name, value. */
const kept = new Map<string, string[][]>();

const web = createServer((request, response) => void serve(request, response, "http"));
const secureWeb = createTlsServer(tls, (request, response) => void serve(request, response, "https"));
for (const [server, port] of [[web, INTERNET_PORTS.http] as const, [secureWeb, INTERNET_PORTS.https] as const]) {
  // Tests keep connections over a pause.
  server.keepAliveTimeout = 600_000;
  server.timeout = 0;
  const listening = Promise.withResolvers<void>();
  server.listen(port, "::", listening.resolve);
  await listening.promise;
}

const questions = () => ({ data: { rest: Buffer.alloc(0) } });
Bun.listen<{ rest: Buffer }>({ hostname: "::", port: INTERNET_PORTS.dns, ...questions(), socket: nameStream() });
Bun.listen<{ rest: Buffer }>({
  hostname: "::",
  port: INTERNET_PORTS.dnsTls,
  tls,
  ...questions(),
  socket: nameStream(),
});
Bun.listen({
  hostname: "::",
  port: INTERNET_PORTS.echo,
  socket: {
    data(socket, piece) {
      count(seen, piece.toString());
      socket.write(piece);
    },
    error: () => undefined,
  },
});

// One socket per address: a reply must come from the address that was queried.
for (const hostname of INTERNET_ADDRESSES) {
  for (const port of [INTERNET_PORTS.echo, INTERNET_PORTS.quic]) {
    await listenUdp(hostname, port, (data) => {
      count(seen, data.toString());
      return data;
    });
  }
  await listenUdp(hostname, INTERNET_PORTS.dns, (query) => answerQuestion(query, "udp"));
}

async function listenUdp(hostname: string, port: number, answer: (data: Buffer) => Buffer | undefined): Promise<void> {
  await Bun.udpSocket({
    hostname,
    port,
    socket: {
      data(socket, data, from, address) {
        const reply = answerOf(answer, data);
        if (reply === undefined) return;
        sendDatagram(socket, reply, from, address);
        if (reply.toString() === "drip") {
          const timer = setInterval(() => sendDatagram(socket, "drop", from, address), DRIP_EVERY_MS);
          setTimeout(() => clearInterval(timer), DRIP_DATAGRAMS_MS);
        }
      },
      error: () => undefined,
    },
  });
}

/** Sends to a peer that may be gone; the next send would then fail. */
function sendDatagram(socket: Bun.udp.Socket<"buffer">, data: Buffer | string, port: number, address: string): void {
  try {
    socket.send(data, port, address);
  } catch {
    // As if the datagram was lost on the way.
  }
}

/** A malformed query must not end this program, because other tests need it. */
function answerOf(answer: (data: Buffer) => Buffer | undefined, data: Buffer): Buffer | undefined {
  try {
    return answer(data);
  } catch {
    return undefined;
  }
}

/** Queries on one connection, each after its length. */
function nameStream(): Bun.SocketHandler<{ rest: Buffer }> {
  return {
    open(socket) {
      socket.data = { rest: Buffer.alloc(0) };
    },
    data(socket, piece) {
      let rest = Buffer.concat([socket.data.rest, piece]);
      while (rest.length >= 2 && rest.length >= 2 + rest.readUInt16BE(0)) {
        const end = 2 + rest.readUInt16BE(0);
        const reply = answerOf((query) => answerQuestion(query, "tcp"), rest.subarray(2, end));
        if (reply !== undefined) socket.write(Buffer.concat([lengthOf(reply), reply]));
        rest = rest.subarray(end);
      }
      socket.data = { rest };
    },
    error: () => undefined,
  };
}

function lengthOf(bytes: Buffer): Buffer {
  return Buffer.from([bytes.length >> 8, bytes.length & 255]);
}

async function serve(request: IncomingMessage, response: ServerResponse, scheme: "http" | "https"): Promise<void> {
  response.on("error", () => undefined);
  const url = new URL(request.url ?? "/", "http://internet");
  const asksUs = url.pathname === "/seen" || url.pathname === "/asked" || url.pathname.startsWith("/kept/");
  if (!asksUs) count(seen, url.pathname);
  if (url.pathname === "/seen") return void response.end(String(seen.get(url.searchParams.get("what") ?? "") ?? 0));
  if (url.pathname === "/asked") return void response.end(String(timesAsked(url.searchParams.get("name") ?? "")));
  if (url.pathname === "/reached") return void response.end(JSON.stringify(reached(request, scheme)));
  const [, folder, mark = ""] = url.pathname.split("/");
  if (folder === "keep") return void response.end(`kept ${keepHeaders(mark, request)}`);
  if (folder === "kept") return void response.end(JSON.stringify(kept.get(mark) ?? []));
  if (folder === "headers") return void response.end(JSON.stringify({ headers: titled(request.rawHeaders) }));
  if (url.pathname === "/dns-query") return await serveNames(request, response, url);
  if (url.pathname === "/drip") return drip(response);
  const elsewhere = url.searchParams.get("redirect");
  if (elsewhere !== null) return void response.writeHead(302, { location: elsewhere }).end();
  const bytes = /^\/bytes\/(\d{1,12})$/.exec(url.pathname)?.[1];
  if (bytes !== undefined) return sendBytes(response, Number(bytes));
  response.end("hello from outside");
}

function reached(request: IncomingMessage, scheme: string) {
  const { localAddress = "", servername } = request.socket as TLSSocket & { servername?: string | false };
  return {
    scheme,
    address: localAddress.replace(/^::ffff:/, ""),
    /** The server name from the TLS handshake. */
    name: typeof servername === "string" ? servername : null,
    host: request.headers.host ?? null,
    method: request.method,
    path: request.url,
  };
}

/** Returns how many requests had this mark. */
function keepHeaders(mark: string, { rawHeaders, socket }: IncomingMessage): number {
  const { localAddress = "" } = socket;
  const lists = [...(kept.get(mark) ?? []), [`@${localAddress.replace(/^::ffff:/, "")}`, ...rawHeaders]];
  kept.set(mark, lists.slice(-KEPT_PER_MARK_MAX));
  if (kept.size > KEPT_MARKS_MAX) kept.delete(kept.keys().next().value ?? "");
  return lists.length;
}

/** As httpbin.org writes them. */
function titled(rawHeaders: readonly string[]): Record<string, string> {
  const title = (name: string) => name.toLowerCase().replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase());
  const pairs = rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [[title(name), rawHeaders[at + 1] ?? ""]] : []));
  return Object.fromEntries(pairs);
}

async function serveNames(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
  let query = Buffer.from(url.searchParams.get("dns") ?? "", "base64url");
  if (request.method === "POST") {
    for await (const piece of request) query = Buffer.concat([query, piece as Buffer]).subarray(0, QUESTION_MAX_BYTES);
  }
  const reply = answerOf((one) => answerQuestion(one, "tcp"), query);
  response.setHeader("content-type", "application/dns-message");
  response.end(reply ?? "");
}

function drip(response: ServerResponse): void {
  const timer = setInterval(() => response.write("drop\n"), DRIP_EVERY_MS);
  response.on("close", () => clearInterval(timer));
  response.write("drop\n");
}

function sendBytes(response: ServerResponse, length: number): void {
  response.setHeader("content-length", String(length));
  function* pieces() {
    for (let left = length; left > 0; left -= PIECE.length) yield PIECE.subarray(0, Math.min(left, PIECE.length));
  }
  Readable.from(pieces()).pipe(response);
}

const startedBy = process.ppid;
setInterval(() => {
  if (process.ppid !== startedBy) process.exit(0);
}, 1000);
console.log("ready");
