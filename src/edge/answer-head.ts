/**
 * The head of an HTTP answer on a connection of our own: what the sandbox says, bounded and checked, and what came
 * behind it.
 */
import { EDGE_ANSWER_HEAD_MAX_BYTES } from "./limits.ts";
import type { SandboxSocket } from "./sandbox-socket.ts";

interface AnswerHead {
  status: number;
  headers: Headers;
  /** Bytes of the body that came together with the head. */
  rest: Buffer<ArrayBuffer>;
}

const END_OF_HEAD = "\r\n\r\n";

export async function readAnswerHead(socket: SandboxSocket): Promise<AnswerHead> {
  const { head, rest } = await gather(socket, Buffer.alloc(0), (bytes) => {
    const end = bytes.indexOf(END_OF_HEAD);
    if (end >= 0) {
      return { head: bytes.toString("latin1", 0, end), rest: bytes.subarray(end + END_OF_HEAD.length) };
    }
    if (bytes.length > EDGE_ANSWER_HEAD_MAX_BYTES) throw new Error("the service's answer has too long a head");
    return undefined;
  });
  return { ...parseHead(head), rest };
}

/** Gathers bytes until `enough` finds what it wants in them, or the connection ends. */
export function gather<T>(
  socket: SandboxSocket,
  start: Buffer<ArrayBuffer>,
  enough: (bytes: Buffer<ArrayBuffer>) => T | undefined,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    let bytes = start;
    const look = (ended: boolean) => {
      try {
        const found = enough(bytes);
        if (found !== undefined) resolve(found);
        else if (ended) reject(new Error("the service hung up within its answer"));
      } catch (failure) {
        reject(failure);
      }
    };
    socket.listen({
      data: (more) => {
        bytes = Buffer.concat([bytes, more]);
        look(false);
      },
      drained: () => undefined,
      closed: () => look(true),
    });
    look(false);
  });
}

function parseHead(head: string): { status: number; headers: Headers } {
  const [statusLine = "", ...lines] = head.split("\r\n");
  const status = Number(/^HTTP\/1\.[01] (\d{3})(?: |$)/.exec(statusLine)?.[1]);
  if (Number.isNaN(status)) throw new Error("the service's answer is not HTTP");
  const headers = new Headers();
  for (const line of lines) {
    const colon = line.indexOf(":");
    if (colon <= 0) throw new Error("the service's answer has a malformed header");
    headers.append(line.slice(0, colon), line.slice(colon + 1).trim());
  }
  return { status, headers };
}
