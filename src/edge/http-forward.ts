/**
 * Carries one HTTP exchange: the request to the sandbox, the response back. Nothing is decoded, no long body is
 * gathered, and each side's end or failure reaches the other.
 */
import { type CarriedBody, carried } from "./carried-body.ts";
import { towardsClient, towardsSandbox } from "./carried-headers.ts";
import { downloadFile, isFileDownload } from "./file-download.ts";
import type { Attempt } from "./reach.ts";

const STATUS_MAX = 599;

/** Prepares a request for forwarding. The attempt may be repeated as long as connections are refused. */
export function httpAttempt(request: Request, target: string, askedPort: number): Attempt<Response> {
  const { method, headers } = request;
  towardsSandbox(headers);
  // A new connection for each request: addresses pass from one sandbox to the next, an idle connection must not.
  headers.set("connection", "close");
  let body: CarriedBody | undefined;
  return async (host, port, ended) => {
    const signal = AbortSignal.any([request.signal, ended]);
    if (isFileDownload(method, askedPort, target)) return await downloadFile({ host, port, target, headers, signal });
    if (request.body !== null) body ??= await carried(request.body, headers.get("content-length"));
    const response = await fetch(`http://${host}:${port}${target}`, {
      method,
      headers,
      body: typeof body === "function" ? body() : (body ?? null),
      signal,
      keepalive: false,
      redirect: "manual",
      decompress: false,
      // Streams may be silent for hours, and the machine's HTTP_PROXY is not for sandboxes.
      timeout: false,
      proxy: false,
    });
    return await towardsClientResponse(response);
  };
}

async function towardsClientResponse(response: Response): Promise<Response> {
  const { status, statusText, headers } = response;
  towardsClient(headers);
  // A Response cannot be made with a status above 599, though a service may send one.
  if (response.body === null || status > STATUS_MAX) return response;
  // To bytes without a type Bun.serve would add one; to a stream it does not.
  const announced = headers.has("content-type") ? headers.get("content-length") : null;
  const body = await carried(response.body, announced);
  return new Response(typeof body === "function" ? body() : body, { status, statusText, headers });
}
