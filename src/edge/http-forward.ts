/**
 * Carries one HTTP exchange: the request to the sandbox, the response back. Nothing is decoded, no long body is
 * gathered, and each side's end or failure reaches the other. Most exchanges go by fetch, which has a thread of its own
 * for them; what fetch would change on its way, and files, go over connections of ours.
 */
import { RUNTIME_PORT } from "../contract/runtime/version.ts";
import { type CarriedBody, carried } from "./carried-body.ts";
import { maskHost, towardsClient, towardsSandbox } from "./carried-headers.ts";
import { exchangeOverSocket } from "./own-exchange.ts";
import type { Attempt, Way } from "./reach.ts";
import { RequestBody } from "./request-body.ts";

const STATUS_MAX = 599;
const BODILESS_METHODS: ReadonlySet<string> = new Set(["GET", "HEAD"]);

/**
 * Prepares a request for forwarding. The attempt may be repeated as long as connections are refused. `over` is called
 * when all of the answer has been handed over, or nobody takes it any more.
 */
export function httpAttempt(request: Request, target: string, askedPort: number, over: () => void): Attempt<Response> {
  const { headers } = request;
  const host = headers.get("host");
  const isFramed = headers.has("content-length") || headers.has("transfer-encoding");
  towardsSandbox(headers);
  const isForFetch = fetchKeeps(request, target, isFramed) && !isFileDownload(request.method, askedPort, target);
  // A new connection for each request: addresses pass from one sandbox to the next, an idle connection must not.
  headers.set("connection", "close");
  const exchange = isForFetch ? byFetch(request, target, over) : bySocket(request, target, askedPort, over);
  return (way) => {
    if (way.maskedHost !== null) maskHost(headers, host, way.maskedHost);
    return exchange(way);
  };
}

/**
 * Where it finds no Accept, User-Agent, Host, or length of a body that may be, fetch puts its own; of two slashes at
 * the start it makes one.
 */
function fetchKeeps({ method, headers }: Request, target: string, isFramed: boolean): boolean {
  if (target.startsWith("//")) return false;
  if (!headers.has("accept") || !headers.has("user-agent") || !headers.has("host")) return false;
  return isFramed || BODILESS_METHODS.has(method);
}

/** A file may be gigabytes, and fetch carries a body from thread to thread in small pieces: twice the work. */
function isFileDownload(method: string, port: number, target: string): boolean {
  return method === "GET" && port === RUNTIME_PORT && /^\/files(\?|$)/.test(target);
}

function bySocket(request: Request, target: string, askedPort: number, over: () => void): Attempt<Response> {
  let body: RequestBody | undefined;
  return (way) => {
    if (request.body !== null) body ??= new RequestBody(request.body);
    return exchangeOverSocket({ request, target, body, isGuest: askedPort === RUNTIME_PORT, over }, way);
  };
}

function byFetch(request: Request, target: string, over: () => void): Attempt<Response> {
  const { method, headers } = request;
  let body: CarriedBody | undefined;
  return async (way) => {
    if (request.body !== null) body ??= await carried(request.body, headers.get("content-length"));
    const response = await fetch(urlOf(way, target), {
      method,
      headers,
      body: typeof body === "function" ? body() : (body ?? null),
      signal: AbortSignal.any([request.signal, way.ended]),
      keepalive: false,
      redirect: "manual",
      decompress: false,
      // Streams may be silent for hours, and the machine's HTTP_PROXY is not for sandboxes.
      timeout: false,
      proxy: false,
      ...(way.tlsName !== undefined && { tls: { rejectUnauthorized: false, serverName: way.tlsName } }),
    });
    return await towardsClientResponse(response, over);
  };
}

function urlOf({ host, port, tlsName }: Way, target: string): string {
  return `${tlsName === undefined ? "http" : "https"}://${host}:${port}${target}`;
}

async function towardsClientResponse(response: Response, over: () => void): Promise<Response> {
  const { status, statusText, headers } = response;
  towardsClient(headers);
  // A Response cannot be made with a status above 599, though a service may send one.
  if (response.body === null || status > STATUS_MAX) {
    over();
    return response;
  }
  // To bytes without a type Bun.serve would add one; to a stream it does not.
  const announced = headers.has("content-type") ? headers.get("content-length") : null;
  const body = await carried(response.body, announced, over);
  if (typeof body !== "function") over();
  return new Response(typeof body === "function" ? body() : body, { status, statusText, headers });
}
