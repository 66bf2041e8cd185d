/** Answers a client with a short answer of ours. */

import { HeaderLines } from "../../http1/header-lines.ts";
import type { ClientRequest } from "../front/client-request.ts";

export async function answerWith(client: ClientRequest, response: Response): Promise<void> {
  const body = Buffer.from(await response.arrayBuffer());
  const headers = new HeaderLines();
  response.headers.forEach((value, name) => {
    headers.append(name, value);
  });
  const hasNone = client.method === "HEAD" || response.status === 204;
  if (response.status !== 204 && !headers.has("content-length")) headers.append("content-length", String(body.length));
  const { status, statusText } = response;
  client.answer({ status, statusText: statusText || (WORDS[status] ?? ""), headers }, hasNone ? "none" : "whole", body);
}

const WORDS: Readonly<Record<number, string>> = {
  204: "No Content",
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  409: "Conflict",
  429: "Too Many Requests",
  500: "Internal Server Error",
  502: "Bad Gateway",
  503: "Service Unavailable",
};
