/**
 * Reads a JSON body: bounded in size, depth, number of values and time, chunked or not, absent or not. A body of bytes
 * is handed on as it comes.
 */

import type { Clock } from "../../base/clock.ts";
import { Fault } from "../../contract/fault.ts";
import { VALUE_SHOWN_MAX_CHARS } from "../limits.ts";
import { JsonBounds } from "./json-bounds.ts";
import type { Upload } from "./route.ts";

/** From the moment when the key is checked until the whole body is here. */
export const REQUEST_BODY_MS = 60_000;
/** A body is gathered in a buffer that begins with so much and doubles. */
const BODY_BUFFER_MIN_BYTES = 4 * 1024;
/** Of a body that says to be a form: where its first bracket is looked for. */
const JSON_BEGINS_WITHIN_BYTES = 64;

/** A status that only logs show: the client was gone before it could be answered. */
export const CLIENT_CLOSED_REQUEST = 499;

/** Types that are certainly not JSON: uploads, markup, tables, pictures and sound. */
const FOREIGN: readonly RegExp[] = [/^(?:multipart|image|audio|video|font)\//, /^text\/(?:html|css|csv)$/, /[/+]xml$/];

/** What `curl -d` calls everything that it is given. */
const FORM = "application/x-www-form-urlencoded";

/** What a body may cost. */
interface BodyTerms {
  maxBytes: number;
  clock: Clock;
  /** Called with the announced length, or else with that of each piece; throws when there is no room for it. */
  take(bytes: number): void;
}

/** Undefined when there is no body. Whether there is one shows in the bytes, never in Content-Length. */
export async function readJson(request: Request, terms: BodyTerms): Promise<unknown> {
  const bytes = await readBytes(request, terms);
  return bytes.length === 0 ? undefined : parse(bytes);
}

export function uploadOf(request: Request): Upload {
  const written = request.headers.get("content-length");
  return { content: request.body, bytes: written !== null && /^\d{1,15}$/.test(written) ? Number(written) : undefined };
}

async function readBytes(request: Request, { maxBytes, clock, take }: BodyTerms): Promise<Uint8Array> {
  const { bytes: announced } = uploadOf(request);
  if (announced !== undefined && announced > maxBytes) throw tooLarge(maxBytes);
  if (request.body === null) return new Uint8Array();
  // Before anything is read: a flood of bodies that are refused must cost nothing.
  if (announced !== undefined) take(announced);
  const reader = request.body.getReader();
  const leave = () => void reader.cancel().catch(() => undefined);
  let isLate = false;
  const deadline = clock.after(REQUEST_BODY_MS, () => {
    isLate = true;
    leave();
  });
  const gathered = new GatheredBytes();
  const bounds = new JsonBounds();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (isLate) throw tooLate(gathered.size);
      if (done) return gathered.bytes;
      if (gathered.size === 0) refuseForeign(request.headers.get("content-type"), value);
      if (gathered.size + value.length > maxBytes) throw tooLarge(maxBytes);
      if (announced === undefined) take(value.length);
      bounds.take(value);
      gathered.add(value);
    }
  } catch (error) {
    // What comes after a refusal is not read.
    leave();
    // Nothing but the client's connection feeds the stream.
    throw error instanceof Fault ? error : hungUp(gathered.size, error);
  } finally {
    deadline.cancel();
  }
}

/** Copied together as they come: an object for each of very many tiny pieces would take more memory than they do. */
class GatheredBytes {
  #buffer = new Uint8Array();
  size = 0;

  get bytes(): Uint8Array {
    return this.#buffer.subarray(0, this.size);
  }

  add(piece: Uint8Array): void {
    const size = this.size + piece.length;
    if (size > this.#buffer.length) {
      const larger = new Uint8Array(Math.max(size, 2 * this.#buffer.length, BODY_BUFFER_MIN_BYTES));
      larger.set(this.bytes);
      this.#buffer = larger;
    }
    this.#buffer.set(piece, this.size);
    this.size = size;
  }
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

/** Nobody is there to read it; it is for the log. */
function hungUp(size: number, cause: unknown): Fault {
  return new Fault(CLIENT_CLOSED_REQUEST, `the client closed the connection in its body, after ${size} bytes of it`, {
    cause,
  });
}

function tooLarge(maxBytes: number): Fault {
  return new Fault(413, `the body is larger than ${maxBytes} bytes, the maximum of this endpoint`);
}

function tooLate(size: number): Fault {
  return new Fault(408, `the body did not arrive within ${REQUEST_BODY_MS / 1000} s, only ${size} bytes of it`);
}
