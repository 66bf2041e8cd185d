/**
 * Reads a JSON body within limits of size, depth, number of values and time, and a form within limits of size and time.
 * Passes a body of bytes on as a stream.
 */
import type { Clock } from "../../base/clock.ts";
import { Fault } from "../../contract/fault.ts";
import { quoted } from "../../contract/quoted-text.ts";
import { JsonBounds } from "./json-bounds.ts";
import type { Upload } from "./route.ts";

/** From the check of the key until the whole body has arrived. */
export const REQUEST_BODY_MS = 60_000;
/** A form body is accepted as JSON if its first bracket is within this many bytes. */
const JSON_BEGINS_WITHIN_BYTES = 64;

/** A status that only logs show: the client disconnected before the response. */
export const CLIENT_CLOSED_REQUEST = 499;

/** Types that are certainly not JSON: uploads, markup, tables, images, audio and video. */
const FOREIGN: readonly RegExp[] = [/^(?:multipart|image|audio|video|font)\//, /^text\/(?:html|css|csv)$/, /[/+]xml$/];

/** The type that `curl -d` sends with everything. */
const FORM = "application/x-www-form-urlencoded";

/** Limits of a body. */
interface BodyTerms {
  maxBytes: number;
  clock: Clock;
  /** Called with the announced length, or else with that of each chunk. Throws when the budget is spent. */
  take(bytes: number): void;
}

/** Undefined without a body. The bytes decide, never Content-Length. */
export async function readJson(request: Request, terms: BodyTerms): Promise<unknown> {
  const bounds = new JsonBounds();
  const bytes = await readBytes(request, terms, (chunk, before) => {
    if (before === 0) refuseForeign(request.headers.get("content-type"), chunk);
    bounds.take(chunk);
  });
  return bytes.length === 0 ? undefined : parse(bytes);
}

export function uploadOf(request: Request): Upload {
  const written = request.headers.get("content-length");
  return { content: request.body, bytes: written !== null && /^\d{1,15}$/.test(written) ? Number(written) : undefined };
}

/** The fields of a form that is not an upload. */
export async function readForm(request: Request, terms: BodyTerms): Promise<URLSearchParams> {
  const essence = essenceOf(request.headers.get("content-type"));
  if (essence !== FORM) throw new Fault(415, `the body is of the Content-Type ${quoted(essence)}; send ${FORM}`);
  return new URLSearchParams(new TextDecoder().decode(await readBytes(request, terms, () => undefined)));
}

async function readBytes(
  request: Request,
  { maxBytes, clock, take }: BodyTerms,
  inspect: (chunk: Uint8Array, before: number) => void,
): Promise<Uint8Array> {
  const { bytes: announced } = uploadOf(request);
  if (announced !== undefined && announced > maxBytes) throw tooLarge(maxBytes);
  if (request.body === null) return new Uint8Array();
  // Before anything is read, so that a flood of rejected bodies costs nothing.
  if (announced !== undefined) take(announced);
  const reader = request.body.getReader();
  const leave = () => void reader.cancel().catch(() => undefined);
  let isLate = false;
  const deadline = clock.after(REQUEST_BODY_MS, () => {
    isLate = true;
    leave();
  });
  // One buffer: an object for each of very many tiny chunks would take more memory than their bytes.
  const gathered = new Bun.ArrayBufferSink();
  gathered.start({ asUint8Array: true });
  let size = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (isLate) throw tooLate(size);
      if (done) return gathered.end() as Uint8Array;
      inspect(value, size);
      if (size + value.length > maxBytes) throw tooLarge(maxBytes);
      if (announced === undefined) take(value.length);
      gathered.write(value);
      size += value.length;
    }
  } catch (error) {
    // The rest after a refusal is not read.
    leave();
    // Only the client's connection feeds the stream.
    throw error instanceof Fault ? error : hungUp(size, error);
  } finally {
    deadline.cancel();
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
 * Clients often name the type of their JSON wrongly or not at all, so most types are accepted. A type that is certainly
 * not JSON is rejected. A form is rejected unless it begins like a JSON object. An empty body has no type, whatever its
 * header says.
 */
function refuseForeign(contentType: string | null, beginning: Uint8Array): void {
  const essence = essenceOf(contentType);
  const isForm =
    essence === FORM && !/^\s*\{/.test(new TextDecoder().decode(beginning.subarray(0, JSON_BEGINS_WITHIN_BYTES)));
  if (!isForm && !FOREIGN.some((type) => type.test(essence))) return;
  throw new Fault(
    415,
    `the body is of the Content-Type ${quoted(essence)}; send JSON, with the header Content-Type: application/json`,
  );
}

function essenceOf(contentType: string | null): string {
  return (contentType ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
}

/** A fault for the log only: the client is gone. */
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
