/** Answers a client with a short answer of ours, which has the id of its request. */
import { STATUS_CODES } from "node:http";
import { REQUEST_ID_HEADER } from "../../contract/request-id.ts";
import { HeaderLines } from "../../http1/header-lines.ts";
import type { ClientRequest } from "../front/client-request.ts";

export async function respondWith(client: ClientRequest, response: Response): Promise<void> {
  const body = Buffer.from(await response.arrayBuffer());
  const headers = new HeaderLines();
  response.headers.forEach((value, name) => {
    headers.append(name, value);
  });
  headers.append(REQUEST_ID_HEADER, client.requestId);
  const hasNone = client.method === "HEAD" || response.status === 204;
  if (response.status !== 204 && !headers.has("content-length")) headers.append("content-length", String(body.length));
  const { status, statusText } = response;
  client.respond(
    { status, statusText: statusText || (STATUS_CODES[status] ?? ""), headers },
    hasNone ? "none" : "whole",
    body,
  );
}
