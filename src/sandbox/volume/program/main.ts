/**
 * The program that serves the content of one volume. It starts in its own namespaces, confines itself to the volume,
 * and serves a socket that only the server reaches: the operation is the path, its arguments are JSON in the query,
 * file bytes are the body. It ends with the server, when its standard input closes.
 */
import { described } from "../../../base/log.ts";
import { Fault } from "../../../contract/fault.ts";
import type { EntryAttributes, EntryOptions } from "../../../contract/internal/volume-content.ts";
import { confineTo } from "./confinement.ts";
import { prepareDirectories } from "./directory.ts";
import { changeEntry, listFolder, makeFolder, removeEntry, sizesOf, statEntry } from "./entries.ts";
import { entryFault } from "./entry-fault.ts";
import { removeLeftovers } from "./removal.ts";
import { readFile, writeFile } from "./transfer.ts";

interface ContentRequest {
  /** Absent for `/sizes`. */
  path: string;
  depth: number;
  options: EntryOptions;
  changes: EntryAttributes;
}

const operations: Readonly<
  Record<string, (request: ContentRequest, body: ReadableStream<Uint8Array> | null) => Promise<unknown>>
> = {
  "/stat": ({ path }) => statEntry(path),
  "/list": ({ path, depth }) => listFolder(path, depth),
  "/make-folder": ({ path, options }) => makeFolder(path, options),
  "/change": ({ path, changes }) => changeEntry(path, changes),
  "/remove": ({ path }) => removeEntry(path),
  "/sizes": async (_, body) => sizesOf((await new Response(body).json()) as string[]),
  "/write": ({ path, options }, body) => writeFile(path, options, body),
};

/** Operations that create an entry; all others expect it to exist. */
const MAKING: ReadonlySet<string> = new Set(["/make-folder", "/write"]);

async function respond(call: Request): Promise<Response> {
  const { pathname, search } = new URL(call.url);
  const request = JSON.parse(decodeURIComponent(search.slice(1))) as ContentRequest;
  try {
    if (pathname === "/read") {
      const { bytes, content } = await readFile(request.path);
      return new Response(content, { headers: { "X-Bytes": String(bytes) } });
    }
    const operation = operations[pathname];
    if (operation === undefined) throw new Fault(500, `the content of a volume has no ${pathname}`);
    return Response.json((await operation(request, call.body)) ?? null);
  } catch (thrown) {
    const fault = entryFault(request.path ?? "", thrown, MAKING.has(pathname) ? "make" : "use");
    if (fault.status === 500) console.error(described(fault));
    return Response.json(fault.toBody(), { status: fault.status });
  }
}

const [root = "", socket = ""] = process.argv.slice(2);
Bun.serve({ unix: socket, maxRequestBodySize: Number.MAX_SAFE_INTEGER, fetch: respond });
process.umask(0);
prepareDirectories();
confineTo(root);
removeLeftovers().catch((error: unknown) => console.error(described(error)));
process.stdin.on("end", () => process.exit(0)).resume();
console.log("ready");
