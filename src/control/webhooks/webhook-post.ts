/**
 * Sends one message to a webhook. The name is resolved once, every address of it must be public, and the connection
 * goes to exactly the checked address, so that a changed DNS record cannot redirect it. Redirects are not followed.
 * Only the status of the response is read.
 */
import { lookup } from "node:dns/promises";
import { request as plainRequest } from "node:http";
import { request as secureRequest } from "node:https";
import { isIP } from "node:net";
import type { SandboxEvent } from "../../store/sandbox-events.ts";
import type { Webhook } from "../../store/webhooks.ts";
import { asEvent } from "./sandbox-event-view.ts";
import { bareHost, checkedUrl, isInside } from "./webhook-address.ts";

/** From the DNS lookup to the end of the response head. */
export const DELIVERY_MS = 10_000;
/** Limit of the response head and all interim responses before it. The body is not read. */
const DELIVERY_ANSWER_MAX_BYTES = 8 * 1024;

export interface Message {
  url: string;
  headers: Record<string, string>;
  body: string;
}

/** The event with its fields in snake_case, signed. */
export function eventMessage(event: SandboxEvent, webhook: Webhook, deliveryId: string): Message {
  const snakeCase = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const fields = Object.entries(asEvent(event)).map(([name, value]) => [snakeCase(name), value]);
  const body = JSON.stringify(Object.fromEntries(fields));
  const signature = new Bun.CryptoHasher("sha256").update(webhook.secret).update(body).digest("base64");
  return {
    url: webhook.url,
    headers: {
      "User-Agent": "sandlot-webhooks",
      "e2b-webhook-id": webhook.id,
      // The same for every attempt, so that a receiver can recognise a repetition.
      "e2b-delivery-id": deliveryId,
      "e2b-signature-version": "v1",
      "e2b-signature": signature.replace(/=+$/, ""),
    },
    body,
  };
}

/** Returns the HTTP status. Throws an Error whose message may be shown to the owner of the webhook. */
export type PostMessage = (message: Message) => Promise<number>;

interface PostOptions {
  allowInside: boolean;
  timeoutMs?: number;
  /** Additional trusted certificates, for tests. */
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
  // One private address is enough: it must be assumed to be deliberate.
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

/** Connects to the address. The request and the certificate are for the name. */
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
      // For an address there is no server name; the certificate is compared with the address itself.
      ...(isIP(name) === 0 ? { servername: name } : {}),
      ...(ca === undefined ? {} : { ca }),
      // A separate connection, closed afterwards.
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
    // Interim responses (100, 103 …) may repeat without end. Checked after the chunk of each has been read: it may also
    // hold the final response, and much that follows.
    const requireAnswer = () => {
      if ((request.socket?.bytesRead ?? 0) > DELIVERY_ANSWER_MAX_BYTES) end(() => reject(new Error(NOT_HTTP)));
    };
    request.on("information", () => queueMicrotask(requireAnswer));
    // Stays attached: an error after the response is ignored, but it must be handled.
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
