/**
 * One HTTP exchange over a connection of our own: for what fetch would change on its way, such as a request without
 * Accept or User-Agent, and for files, whose content fetch carries at twice the cost.
 */
import { ArrivingBody, framingOf } from "./answer-body.ts";
import { readAnswerHead } from "./answer-head.ts";
import { headerLines, towardsClient } from "./carried-headers.ts";
import { EDGE_WHOLE_BODY_MAX_BYTES } from "./limits.ts";
import type { Way } from "./reach.ts";
import type { RequestBody } from "./request-body.ts";
import { SandboxSocket } from "./sandbox-socket.ts";

/** A Response cannot be made with another status. */
const STATUS_MIN = 200;
const STATUS_MAX = 599;
/** Of answers that have no body whatever their headers say; and 205, whose body is empty. */
const BODILESS: ReadonlySet<number> = new Set([204, 205, 304]);

interface Asked {
  /** Its headers are already those that the sandbox gets. */
  request: Request;
  target: string;
  body: RequestBody | undefined;
  /** Our own runtime says how long its answers are; one that only ends may have been cut short. */
  isGuest: boolean;
  /** Called when all of the answer has been handed over, or nobody takes it any more. */
  over(): void;
}

/** Rejects with code ECONNREFUSED when nobody listens there. */
export async function exchangeOverSocket({ request, target, body, isGuest, over }: Asked, way: Way): Promise<Response> {
  const { method, headers, signal } = request;
  const { host, port, tlsName, ended } = way;
  const socket = await SandboxSocket.dial({ host, port, tlsName, until: [signal, ended] });
  try {
    send(socket, `${method} ${target} HTTP/1.1\r\n${headerLines(headers)}`, headers.get("content-length"), body);
    return await answerOf(socket, method, isGuest, over);
  } catch (failure) {
    socket.terminate();
    throw failure;
  }
}

/** Begins to send. A body is framed as the client framed it: counted, or in chunks. */
function send(socket: SandboxSocket, head: string, announced: string | null, body: RequestBody | undefined): void {
  const isCounted = announced !== null;
  if (body === undefined || (!isCounted && body.isEmpty)) socket.write(Buffer.from(`${head}\r\n`, "latin1"));
  else if (isCounted) void body.sendCounted(socket, Buffer.from(`${head}\r\n`, "latin1"), Number(announced));
  else void body.sendChunked(socket, Buffer.from(`${head}transfer-encoding: chunked\r\n\r\n`, "latin1"));
}

async function answerOf(socket: SandboxSocket, method: string, isGuest: boolean, over: () => void): Promise<Response> {
  const { status, statusText, headers, rest } = await readAnswerHead(socket);
  if (status < STATUS_MIN || status > STATUS_MAX) throw new Error("the service's answer has no status of HTTP");
  if (method === "HEAD" || BODILESS.has(status)) {
    socket.finish();
    over();
    towardsClient(headers);
    return new Response(null, { status, statusText, headers });
  }
  const framing = framingOf(headers);
  if (isGuest && framing.endsWithConnection) throw new Error("the runtime's answer has no length");
  towardsClient(headers);
  const body = new ArrivingBody(socket, rest, framing);
  // To bytes without a type Bun.serve would add one; to a stream it does not.
  if (!headers.has("content-type")) return new Response(body.stream(over), { status, statusText, headers });
  // Costs no time: Bun.serve sends a stream's head with its first piece.
  if (isShort(headers.get("content-length"))) await body.begun();
  const { whole } = body;
  if (whole !== undefined) over();
  return new Response(whole ?? body.stream(over), { status, statusText, headers });
}

function isShort(announced: string | null): boolean {
  return announced !== null && Number(announced) <= EDGE_WHOLE_BODY_MAX_BYTES;
}
