/**
 * Reads a JSON body: bounded in size, depth and number of values, chunked or not, absent or not. A body of bytes is
 * handed on as it comes.
 */
import { Fault } from "../../contract/fault.ts";
import { JSON_DEPTH_MAX } from "../../contract/limits.ts";
import {
  JSON_BEGINS_WITHIN_BYTES,
  REQUEST_BODY_MAX_BYTES,
  REQUEST_VALUES_MAX,
  VALUE_SHOWN_MAX_CHARS,
} from "../limits.ts";
import type { Upload } from "./route.ts";

/** A status that only logs show: the client was gone before it could be answered. */
export const CLIENT_CLOSED_REQUEST = 499;

/** Types that are certainly not JSON: uploads, markup, tables, pictures and sound. */
const FOREIGN: readonly RegExp[] = [/^(?:multipart|image|audio|video|font)\//, /^text\/(?:html|css|csv)$/, /[/+]xml$/];

/** What `curl -d` calls everything that it is given. */
const FORM = "application/x-www-form-urlencoded";

/** Undefined when there is no body. Whether there is one shows in the bytes, never in Content-Length. */
export async function readJson(request: Request): Promise<unknown> {
  const bytes = await readBytes(request);
  if (bytes.length === 0) return undefined;
  const value = parse(bytes);
  refuseUnwieldy(value);
  return value;
}

export function uploadOf(request: Request): Upload {
  const written = request.headers.get("content-length");
  return { content: request.body, bytes: written !== null && /^\d{1,15}$/.test(written) ? Number(written) : undefined };
}

async function readBytes(request: Request): Promise<Uint8Array> {
  if (Number(request.headers.get("content-length")) > REQUEST_BODY_MAX_BYTES) throw tooLarge();
  if (request.body === null) return new Uint8Array();
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    // Leaving the loop cancels the stream, so what comes after the bound is not read.
    for await (const chunk of request.body) {
      if (size === 0) refuseForeign(request.headers.get("content-type"), chunk);
      size += chunk.length;
      if (size > REQUEST_BODY_MAX_BYTES) throw tooLarge();
      chunks.push(chunk);
    }
  } catch (error) {
    // Nothing but the client's connection feeds the stream.
    throw error instanceof Fault ? error : hungUp(size, error);
  }
  return Buffer.concat(chunks, size);
}

function parse(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    throw new Fault(400, "the body is not valid JSON; send a JSON object in UTF-8", { cause });
  }
}

/**
 * Clients name the type of their JSON carelessly, or not at all, and are understood all the same; but what says to be
 * something else for certain was not meant for this interface. A form is one unless it begins as a JSON object does. An
 * empty body has no type, whatever its header says.
 */
function refuseForeign(contentType: string | null, beginning: Uint8Array): void {
  const essence = (contentType ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
  const isForm =
    essence === FORM && !/^\s*\{/.test(new TextDecoder().decode(beginning.subarray(0, JSON_BEGINS_WITHIN_BYTES)));
  if (!isForm && !FOREIGN.some((type) => type.test(essence))) return;
  const shown = essence.length > VALUE_SHOWN_MAX_CHARS ? `${essence.slice(0, VALUE_SHOWN_MAX_CHARS)}…` : essence;
  throw new Fault(
    415,
    `the body is of the Content-Type ${JSON.stringify(shown)}; send JSON, with the header Content-Type: application/json`,
  );
}

/** Depth costs stack wherever the value is walked, and a million values that are wrong cost a second or more. */
function refuseUnwieldy(root: unknown): void {
  let level = [root];
  let values = 1;
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > JSON_DEPTH_MAX) throw new Fault(400, `the body is nested deeper than ${JSON_DEPTH_MAX} levels`);
    const below: unknown[] = [];
    for (const value of level) {
      if (typeof value !== "object" || value === null) continue;
      const children = Object.values(value);
      values += children.length;
      if (values > REQUEST_VALUES_MAX) throw new Fault(400, `the body has more than ${REQUEST_VALUES_MAX} values`);
      for (const child of children) below.push(child);
    }
    level = below;
  }
}

/** Nobody is there to read it; it is for the log. */
function hungUp(size: number, cause: unknown): Fault {
  return new Fault(CLIENT_CLOSED_REQUEST, `the client closed the connection in its body, after ${size} bytes of it`, {
    cause,
  });
}

function tooLarge(): Fault {
  return new Fault(413, `the body is larger than ${REQUEST_BODY_MAX_BYTES} bytes`);
}
