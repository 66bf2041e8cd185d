/**
 * Sends one message to a webhook. The name is looked up once, every address it has must be outside, and the connection
 * goes to exactly the address that was checked, so that a name cannot change its mind in between. Redirects are not
 * followed, and of the answer only its status is looked at.
 */
import { lookup } from "node:dns/promises";
import { request as plainRequest } from "node:http";
import { request as secureRequest } from "node:https";
import { isIP } from "node:net";
import { bareHost, checkedUrl, isInside } from "./webhook-address.ts";

/** From the look-up of the name to the end of the answer's head. */
export const DELIVERY_MS = 10_000;
/** Of an answer's head, and of all that goes before the answer; of its body nothing is read. */
const DELIVERY_ANSWER_MAX_BYTES = 8 * 1024;

export interface Message {
  url: string;
  headers: Record<string, string>;
  body: string;
}

/** Answers the HTTP status. Throws an Error whose message may be shown to the owner of the webhook. */
export type PostMessage = (message: Message) => Promise<number>;

interface PostOptions {
  allowInside: boolean;
  timeoutMs?: number;
  /** Certificates to trust besides the usual ones; for tests. */
  ca?: string;
  resolve?: (name: string) => Promise<string[]>;
}

export function webhookPost(options: PostOptions): PostMessage {
  const { allowInside, timeoutMs = DELIVERY_MS, resolve = addressesOf } = options;
  return async (message) => {
    const url = checkedUrl(message.url, allowInside);
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    try {
      const address = await unlessAborted(late.signal, chosenAddress(url, allowInside, resolve));
      return await exchange(url, address, message, options.ca, late.signal);
    } finally {
      clearTimeout(timer);
    }
  };
}

function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    work.then(resolve, reject);
  });
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

/** The connection is to the address, the request and the certificate are for the name. */
function exchange(
  url: URL,
  address: string,
  { headers, body }: Message,
  ca: string | undefined,
  late: AbortSignal,
): Promise<number> {
  const isSecure = url.protocol === "https:";
  const name = bareHost(url);
  return new Promise((resolve, reject) => {
    const request = (isSecure ? secureRequest : plainRequest)({
      host: address,
      port: url.port === "" ? (isSecure ? 443 : 80) : Number(url.port),
      // Addresses are not names: a certificate is then compared with the address itself.
      ...(isIP(name) === 0 ? { servername: name } : {}),
      ...(ca === undefined ? {} : { ca }),
      // A connection of its own, closed afterwards.
      agent: false,
      maxHeaderSize: DELIVERY_ANSWER_MAX_BYTES,
      method: "POST",
      path: `${url.pathname}${url.search}`,
      headers: {
        ...headers,
        Host: url.host,
        "Content-Type": "application/json",
        "Content-Length": Buffer.byteLength(body),
      },
    });
    const end = (settle: () => void): void => {
      settle();
      late.removeEventListener("abort", giveUp);
      request.destroy();
    };
    const answered = ({ statusCode = 0 }: { statusCode?: number }) => end(() => resolve(statusCode));
    const giveUp = () => end(() => reject(late.reason));
    late.addEventListener("abort", giveUp);
    request.once("response", answered);
    request.once("upgrade", answered);
    // Those that go before the answer (100, 103 …) may come again and again. Looked at when what came with one of them
    // has been read: that may hold the answer itself, and much that follows it.
    const demandAnswer = () => {
      if ((request.socket?.bytesRead ?? 0) > DELIVERY_ANSWER_MAX_BYTES) end(() => reject(new Error(NOT_HTTP)));
    };
    request.on("information", () => queueMicrotask(demandAnswer));
    // Kept to the end: an error after the answer is nobody's concern, but it must be heard.
    request.on("error", (error: NodeJS.ErrnoException) => end(() => reject(new Error(reasonOf(error)))));
    request.once("close", () => end(() => reject(new Error(NO_ANSWER))));
    request.end(body);
  });
}

const NOT_HTTP = "the answer is not HTTP, or its head is too long";
const NO_ANSWER = "the connection was closed without an answer";

function reasonOf({ code, message }: NodeJS.ErrnoException): string {
  if (code?.startsWith("HPE_") === true) return NOT_HTTP;
  return message === "socket hang up" ? NO_ANSWER : `the connection failed: ${code ?? message}`;
}
