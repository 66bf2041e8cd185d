/**
 * Sends one message to a webhook. The name is looked up once, every address it has must be outside, and the connection goes to
 * exactly the address that was checked, so that a name cannot change its mind in between. Redirects are not followed, and of
 * the answer only its status is looked at.
 */
import { lookup } from "node:dns/promises";
import { isIP, type Socket, connect as tcpConnect } from "node:net";
import { connect as tlsConnect } from "node:tls";
import { DELIVERY_ANSWER_MAX_BYTES, DELIVERY_MS } from "../limits.ts";
import { bareHost, checkedUrl, isInside } from "./webhook-address.ts";

export interface Message {
  url: string;
  headers: Record<string, string>;
  body: string;
}

/** Answers the HTTP status. Throws an Error whose message may be shown to the owner of the webhook. */
export type PostMessage = (message: Message) => Promise<number>;

export interface PostOptions {
  allowInside: boolean;
  timeoutMs?: number;
  /** Certificates to trust besides the usual ones; for tests. */
  ca?: string;
  resolve?: (name: string) => Promise<string[]>;
}

export function webhookPost(options: PostOptions): PostMessage {
  const { allowInside, timeoutMs = DELIVERY_MS, resolve = addressesOf } = options;
  return async ({ url: text, headers, body }) => {
    const url = checkedUrl(text, allowInside);
    const late = Promise.withResolvers<never>();
    let socket: Socket | undefined;
    const timer = setTimeout(() => late.reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    try {
      const address = await Promise.race([chosenAddress(url, allowInside, resolve), late.promise]);
      socket = open(url, address, options.ca);
      return await Promise.race([exchange(socket, requestText(url, headers, body)), late.promise]);
    } finally {
      clearTimeout(timer);
      socket?.destroy();
    }
  };
}

async function addressesOf(name: string): Promise<string[]> {
  return (await lookup(name, { all: true })).map(({ address }) => address);
}

async function chosenAddress(url: URL, allowInside: boolean, resolve: (name: string) => Promise<string[]>) {
  const host = bareHost(url);
  const addresses = isIP(host) === 0 ? await found(host, resolve) : [host];
  const [first] = addresses;
  if (first === undefined) throw new Error(`${host} has no address`);
  // One bad one is enough: whoever names it means to get there.
  if (!allowInside && addresses.some((address) => isInside(address))) throw new Error(`${host} leads inside`);
  return first;
}

async function found(name: string, resolve: (name: string) => Promise<string[]>): Promise<string[]> {
  try {
    return await resolve(name);
  } catch {
    throw new Error(`${name} could not be found`);
  }
}

function open(url: URL, host: string, ca: string | undefined): Socket {
  const isSecure = url.protocol === "https:";
  const port = url.port === "" ? (isSecure ? 443 : 80) : Number(url.port);
  if (!isSecure) return tcpConnect({ host, port });
  const name = bareHost(url);
  // Addresses are not names: a certificate is then compared with the address itself.
  const identity = isIP(name) === 0 ? { servername: name } : {};
  return tlsConnect({ host, port, ...identity, ...(ca === undefined ? {} : { ca }) });
}

function requestText(url: URL, headers: Record<string, string>, body: string): string {
  const lines = [
    `POST ${url.pathname}${url.search} HTTP/1.1`,
    `Host: ${url.host}`,
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ];
  return `${lines.join("\r\n")}\r\n\r\n${body}`;
}

function exchange(socket: Socket, request: string): Promise<number> {
  return new Promise((resolve, reject) => {
    let head = "";
    const isSecure = "encrypted" in socket;
    socket.once(isSecure ? "secureConnect" : "connect", () => socket.write(request));
    socket.on("data", (chunk: Buffer) => {
      head += chunk.toString("latin1");
      const status = finalStatus(head);
      if (status !== undefined) resolve(status);
      else if (head.length > DELIVERY_ANSWER_MAX_BYTES) reject(new Error("the answer is not HTTP"));
    });
    socket.once("error", (error: NodeJS.ErrnoException) => reject(new Error(reasonOf(error))));
    socket.once("close", () => reject(new Error("the connection was closed without an answer")));
  });
}

/** The status of the first answer that is not one of those that go before it (100, 103 …). */
function finalStatus(text: string): number | undefined {
  for (let rest = text; ; ) {
    const status = Number(/^HTTP\/1\.[01] (\d{3})[ \r]/.exec(rest)?.[1]);
    if (Number.isNaN(status)) return undefined;
    if (status >= 200 || status === 101) return status;
    const end = rest.indexOf("\r\n\r\n");
    if (end < 0) return undefined;
    rest = rest.slice(end + 4);
  }
}

function reasonOf(error: NodeJS.ErrnoException): string {
  return `the connection failed: ${error.code ?? error.message}`;
}
