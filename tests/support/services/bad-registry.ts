/**
 * A registry that serves one image wrongly; the repository's name says how. Arguments: the folder of an OCI layout, an
 * address and a port.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const [, , layout = "", hostname = "", port = ""] = process.argv;
const blobs = join(layout, "blobs/sha256");
const [{ digest: top, mediaType }] = JSON.parse(readFileSync(join(layout, "index.json"), "utf8")).manifests;

const names = new Set(readdirSync(blobs));
const blob = (digest: string) => {
  const name = digest.replace("sha256:", "");
  return names.has(name) ? readFileSync(join(blobs, name)) : undefined;
};

const status = (code: number) => () => new Response(`{"errors":[]}`, { status: code });
const hang = () => new Promise<Response>(() => undefined);

/** Responses to the first request for the image; FOR_BLOBS has those for its layers. */
const FOR_MANIFESTS: Record<string, () => Response | Promise<Response>> = {
  "too-many": status(429),
  missing: status(404),
  broken: status(500),
  forbidden: status(403),
  hangs: hang,
  "long-manifest": () => new Response(endless()),
  "no-manifest": () => new Response("<html>", { headers: { "content-type": mediaType } }),
  "leads-inside": () => Response.redirect("http://10.1.2.3/", 307),
};
const FOR_BLOBS: Record<string, (bytes: Uint8Array<ArrayBuffer>) => Response | Promise<Response>> = {
  "other-bytes": (bytes) => new Response(bytes.map((byte) => byte ^ 1)),
  "short-blob": (bytes) => new Response(bytes.subarray(0, bytes.length - 1)),
  "endless-blob": () => new Response(endless()),
  "blob-hangs": hang,
  "private-blob-hangs": hang,
  "blob-leads-inside": () => Response.redirect("http://10.1.2.3/", 307),
};

function endless(): ReadableStream<Uint8Array> {
  const chunk = new Uint8Array(1024 * 1024).fill(32);
  return new ReadableStream({ pull: (controller) => controller.enqueue(chunk) });
}

/** The requests received, so that a test sees what was fetched. */
let requests: string[] = [];

Bun.serve({
  hostname,
  port: Number(port),
  idleTimeout: 0,
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === "/asked") {
      const response = Response.json(requests);
      requests = [];
      return response;
    }
    const [, how = "", what = "", which = ""] = /^\/v2\/([^/]+)\/(manifests|blobs)\/(.+)$/.exec(pathname) ?? [];
    requests.push(`${what} ${which} ${request.headers.get("authorization") ?? "nobody"}`);
    // Clients ask here first whether they have to authenticate.
    const isOpen = how !== "" && !how.startsWith("private");
    if (!isOpen && request.headers.get("authorization") !== `Basic ${btoa("reader:sesame")}`) {
      return new Response("", { status: 401, headers: { "www-authenticate": 'Basic realm="here"' } });
    }
    if (how === "") return new Response("{}");
    if (what === "manifests") {
      if (FOR_MANIFESTS[how] !== undefined) return await FOR_MANIFESTS[how]();
      const digest = which.startsWith("sha256:") && how !== "other-manifest" ? which : top;
      const bytes = how === "other-manifest" && which.startsWith("sha256:") ? Buffer.from("{}") : blob(digest);
      if (bytes === undefined) return new Response("", { status: 404 });
      return new Response(bytes, { headers: { "content-type": mediaType, "docker-content-digest": digest } });
    }
    const bytes = blob(which);
    if (bytes === undefined) return new Response("", { status: 404 });
    return (await FOR_BLOBS[how]?.(new Uint8Array(bytes))) ?? new Response(bytes);
  },
});

const startedBy = process.ppid;
setInterval(() => {
  if (process.ppid !== startedBy) process.exit(0);
}, 1000);
