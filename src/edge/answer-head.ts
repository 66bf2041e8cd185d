/**
 * The head of an HTTP answer: what the sandbox says, bounded and checked, and what came behind it. Interim answers
 * (100, 103) are read over: the client has been told to continue already, and early hints are only hints.
 */
import { EDGE_ANSWER_HEAD_MAX_BYTES } from "./limits.ts";
import type { SandboxSocket } from "./sandbox-socket.ts";

interface AnswerHead {
  status: number;
  statusText: string;
  headers: Headers;
  /** Bytes of the body that came together with the head. */
  rest: Buffer<ArrayBuffer>;
}

const SWITCHING_PROTOCOLS = 101;
const OK = 200;
const LINE_END = /\r?\n/;
const STATUS_LINE = /^HTTP\/1\.[01] (\d{3})(?: ([\t\x20-\x7e\x80-\xff]*))?$/;

export async function readAnswerHead(socket: SandboxSocket): Promise<AnswerHead> {
  let interimBytes = 0;
  return await gather(socket, Buffer.alloc(0), (bytes) => {
    for (;;) {
      const unread = interimBytes === 0 ? bytes : bytes.subarray(interimBytes);
      const end = endOfHead(unread);
      if (interimBytes + (end?.body ?? unread.length) > EDGE_ANSWER_HEAD_MAX_BYTES) {
        throw new Error("the service's answer has too long a head");
      }
      if (end === undefined) return undefined;
      const head = parseHead(unread.toString("latin1", 0, end.head), unread.subarray(end.body));
      if (head.status >= OK || head.status === SWITCHING_PROTOCOLS) return head;
      interimBytes += end.body;
    }
  });
}

/**
 * Where the head ends and the body begins. Lines may end without a carriage return, as those of small servers written
 * by hand do (RFC 9112, 2.2); since the head is written anew for the client, nobody can read it in another way.
 */
function endOfHead(bytes: Buffer<ArrayBuffer>): { head: number; body: number } | undefined {
  const full = bytes.indexOf("\n\r\n");
  const bare = (full < 0 ? bytes : bytes.subarray(0, full + 1)).indexOf("\n\n");
  if (bare >= 0) return { head: bare, body: bare + 2 };
  return full < 0 ? undefined : { head: full, body: full + 3 };
}

/** Gathers bytes until `enough` finds what it wants in them, or the connection ends. */
export function gather<T>(
  socket: SandboxSocket,
  start: Buffer<ArrayBuffer>,
  enough: (bytes: Buffer<ArrayBuffer>) => T | undefined,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    let bytes = start;
    let isOver = false;
    const look = (ended: boolean) => {
      if (isOver) return;
      try {
        const found = enough(bytes);
        isOver = found !== undefined || ended;
        if (found !== undefined) resolve(found);
        else if (ended) reject(new Error("the service hung up within its answer"));
      } catch (failure) {
        isOver = true;
        reject(failure);
      }
    };
    socket.listen({
      data: (more) => {
        bytes = bytes.length === 0 ? more : Buffer.concat([bytes, more]);
        look(false);
      },
      drained: () => undefined,
      closed: () => look(true),
    });
    if (start.length > 0) look(false);
  });
}

function parseHead(head: string, rest: Buffer<ArrayBuffer>): AnswerHead {
  const [statusLine = "", ...lines] = head.split(LINE_END);
  const [, status, statusText = ""] = STATUS_LINE.exec(statusLine.replace(/\r$/, "")) ?? [];
  if (status === undefined) throw new Error("the service's answer is not HTTP");
  const headers = new Headers();
  for (const line of lines) {
    const colon = line.indexOf(":");
    if (colon <= 0) throw new Error("the service's answer has a malformed header");
    // Throws on what is no name or no value, as a name with a space before the colon.
    headers.append(line.slice(0, colon), line.slice(colon + 1));
  }
  return { status: Number(status), statusText, headers, rest };
}
