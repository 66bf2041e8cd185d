/** GET /files: streams one file from disk: plain bytes for ranges and conditions, else gzip if the client lists it. */
import type { Stats } from "node:fs";
import { open, stat } from "node:fs/promises";
import { basename, extname } from "node:path";
import { systemCode } from "../../base/system-code.ts";
import { Fault } from "../../contract/fault.ts";
import { NOTHING_THERE } from "../file-tree/tree.ts";
import { noteGarbage } from "../system/garbage.ts";
import { quote } from "../system/quote.ts";
import { acceptsIdentity, chooseEncoding } from "./accept-encoding.ts";
import { isUnchanged, parseRange, rangeHolds } from "./byte-range.ts";
import { linkLoopFault } from "./write-failure.ts";

const SNIFFED_BYTES = 512;
const FILE_READ_CHUNK_BYTES = 256 * 1024;

const CONDITIONAL_HEADERS = ["range", "if-modified-since", "if-none-match", "if-range"];

export async function download(request: Request, path: string): Promise<Response> {
  const file = await regularFile(path);
  const accepted = request.headers.get("accept-encoding");
  const plain = CONDITIONAL_HEADERS.some((name) => request.headers.has(name));
  const encoding = plain ? (acceptsIdentity(accepted) ? "identity" : undefined) : chooseEncoding(accepted);
  if (encoding === undefined) {
    throw new Fault(406, `no acceptable encoding in ${quote(accepted ?? "")}; identity and gzip are available`);
  }
  const headers = new Headers({
    "Content-Disposition": contentDisposition(basename(path)),
    "Last-Modified": file.mtime.toUTCString(),
    Vary: "Accept-Encoding",
  });
  return encoding === "gzip" ? compressed(path, headers) : plainBytes(request, path, file, headers);
}

async function regularFile(path: string): Promise<Stats> {
  const shown = quote(path);
  try {
    const file = await stat(path);
    if (file.isDirectory()) throw new Fault(400, `${shown} is a directory; list it instead`);
    if (!file.isFile()) throw new Fault(400, `${shown} is not a regular file and cannot be downloaded`);
    return file;
  } catch (thrown) {
    const code = systemCode(thrown);
    if (NOTHING_THERE.has(code)) throw new Fault(404, `there is no file at ${shown}`, { cause: thrown });
    if (code === "ELOOP") throw linkLoopFault(path, thrown);
    throw code === "" ? thrown : new Fault(500, `${shown} cannot be opened: ${code}`, { cause: thrown });
  }
}

function compressed(path: string, headers: Headers): Response {
  headers.set("Content-Encoding", "gzip");
  headers.set("Content-Type", typeByName(path) ?? "application/octet-stream");
  return new Response(streamOf(packed(path)), { headers });
}

/** Loads gzip on the first request for it. */
async function* packed(path: string): AsyncGenerator<Uint8Array<ArrayBuffer>, void> {
  const { gzip } = await import("./gzip.ts");
  yield* gzip(readChunks(path));
}

async function plainBytes(request: Request, path: string, file: Stats, headers: Headers): Promise<Response> {
  headers.set("Accept-Ranges", "bytes");
  if (isUnchanged(request.headers, file.mtimeMs)) return new Response(null, { status: 304, headers });
  headers.set("Content-Type", typeByName(path) ?? (await sniffType(path)));
  const rangeHeader = rangeHolds(request.headers, file.mtimeMs) ? request.headers.get("range") : null;
  const range = parseRange(rangeHeader, file.size);
  if (range === "unsatisfiable") {
    throw new Fault(416, `the range ${quote(rangeHeader ?? "")} is outside of the file's ${file.size} bytes`, {
      headers: { "Content-Range": `bytes */${file.size}` },
    });
  }
  if (range === "all") {
    // Files under /proc report size zero but have content.
    return new Response(file.size === 0 ? streamOf(readChunks(path)) : Bun.file(path), { headers });
  }
  headers.set("Content-Range", `bytes ${range.start}-${range.end}/${file.size}`);
  return new Response(Bun.file(path).slice(range.start, range.end + 1), { status: 206, headers });
}

/** Produces chunks on demand; the file is closed at the end, on failure and on abort. */
function streamOf(chunks: AsyncGenerator<Uint8Array<ArrayBuffer>, void>): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream(
    {
      async pull(controller) {
        const next = await chunks.next();
        if (next.done === true) controller.close();
        else controller.enqueue(next.value);
      },
      async cancel() {
        await chunks.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
}

async function* readChunks(path: string): AsyncGenerator<Uint8Array<ArrayBuffer>, void> {
  await using file = await open(path, "r");
  for (;;) {
    const { bytesRead, buffer } = await file.read(new Uint8Array(FILE_READ_CHUNK_BYTES));
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
    noteGarbage(bytesRead);
  }
}

function contentDisposition(name: string): string {
  if (/^[\x20-\x7e]*$/.test(name)) return `inline; filename="${name.replace(/["\\]/g, "\\$&")}"`;
  const encoded = encodeURIComponent(name).replace(/['()*]/g, (letter) => `%${letter.charCodeAt(0).toString(16)}`);
  return `inline; filename*=utf-8''${encoded}`;
}

/** The media type by extension; undefined if the extension is unknown. */
function typeByName(path: string): string | undefined {
  if (extname(path) === "") return undefined;
  const type = Bun.file(path).type;
  return type === "" || type === "application/octet-stream" ? undefined : type;
}

/** Guesses from the first bytes whether a file is text. */
async function sniffType(path: string): Promise<string> {
  const head = await Bun.file(path).slice(0, SNIFFED_BYTES).bytes();
  return isText(head) ? "text/plain; charset=utf-8" : "application/octet-stream";
}

function isText(head: Uint8Array): boolean {
  const allowedControls = new Set([0x09, 0x0a, 0x0c, 0x0d, 0x1b]);
  return head.every((byte) => byte >= 0x20 || allowedControls.has(byte));
}
