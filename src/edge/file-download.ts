/**
 * GET /files of a sandbox's guest. It goes over a connection of our own, since it may be gigabytes: fetch carries a
 * body from thread to thread in small pieces, which costs twice the time, and Bun's own way around that buffers without
 * a bound and prints the link of each broken download. Only the guest is spoken to like this; any other service may
 * speak HTTP in ways that fetch knows better.
 */

import { RUNTIME_PORT } from "../contract/runtime/version.ts";
import { bodyStream, framingOf } from "./answer-body.ts";
import { readAnswerHead } from "./answer-head.ts";
import { carried } from "./carried-body.ts";
import { towardsClient } from "./carried-headers.ts";
import { EDGE_WHOLE_BODY_MAX_BYTES } from "./limits.ts";
import { SandboxSocket } from "./sandbox-socket.ts";

interface Download {
  host: string;
  port: number;
  target: string;
  /** As the guest gets them. */
  headers: Headers;
  /** Aborted when the client leaves or the sandbox ends. */
  signal: AbortSignal;
}

export function isFileDownload(method: string, port: number, target: string): boolean {
  return method === "GET" && port === RUNTIME_PORT && /^\/files(\?|$)/.test(target);
}

/** Rejects with code ECONNREFUSED when nobody listens there. */
export async function downloadFile({ host, port, target, headers, signal }: Download): Promise<Response> {
  const socket = await SandboxSocket.dial(host, port);
  socket.endWith(signal);
  socket.write(requestHead(target, headers));
  try {
    return await answer(socket);
  } catch (failure) {
    socket.terminate();
    throw failure;
  }
}

function requestHead(target: string, headers: Headers): Buffer {
  let head = `GET ${target} HTTP/1.1\r\n`;
  headers.forEach((value, name) => {
    if (name !== "content-length") head += `${name}: ${value}\r\n`;
  });
  return Buffer.from(`${head}\r\n`, "latin1");
}

async function answer(socket: SandboxSocket): Promise<Response> {
  const { status, headers, rest } = await readAnswerHead(socket);
  const stream = bodyStream(socket, rest, framingOf(status, headers));
  towardsClient(headers);
  if (status === 204 || status === 304) return new Response(null, { status, headers });
  const announced = headers.get("content-length");
  const isShort = announced !== null && Number(announced) <= EDGE_WHOLE_BODY_MAX_BYTES;
  // To bytes without a type Bun.serve would add one; to a stream it does not.
  if (!isShort || !headers.has("content-type")) return new Response(stream, { status, headers });
  const body = await carried(stream, announced);
  return new Response(typeof body === "function" ? body() : body, { status, headers });
}
