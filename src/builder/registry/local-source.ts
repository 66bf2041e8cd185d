/** Copies an image of the host into the sandbox that unpacks it. The operator is trusted, the image's files are not. */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "../../contract/fault.ts";
import { cannotStart, MINIMAL_ENV, toolSession } from "../../system/command.ts";
import { FETCH_COPY_MS, FETCH_DOCUMENT_MAX_BYTES } from "../limits.ts";
import type { FetchTools } from "./fetch-tools.ts";
import type { LocalImage } from "./local-images.ts";
import { type Blob, imageArchitecture, readManifest } from "./manifest.ts";

interface Provided {
  /** Digest of its content, so that the same image is not unpacked twice. */
  digest: string;
  /** Makes it the image to unpack. */
  put(): Promise<void>;
}

const SOURCE = "/fetch/source";
const STEPS_MAX = 4;

export async function copyLocalImage(
  { kind, place }: LocalImage,
  image: string,
  tools: FetchTools,
  signal: AbortSignal,
): Promise<Provided> {
  if (kind === "layout") return await fromLayout(place, image, tools);
  if (kind === "folder") return await fromFolder(place, tools, signal);
  return await fromArchive(place, tools);
}

/** Picks the image for this platform from a layout. */
async function fromLayout(folder: string, image: string, tools: FetchTools): Promise<Provided> {
  const blobFile = (digest: string) => join(folder, "blobs", digest.replace(":", "/"));
  const documents = new Map<string, string>();
  let text = await document(join(folder, "index.json"), folder);
  for (let step = 0; step < STEPS_MAX; step++) {
    const found = readManifest(onlyOne(text), image);
    if (found.kind === "image") {
      const [digest = "", manifest = ""] = [...documents].at(-1) ?? [];
      return { digest, put: () => putLayout(digest, manifest, [found.config, ...found.layers]) };
    }
    text = await document(blobFile(found.digest), folder);
    documents.set(found.digest, text);
  }
  throw new Fault(422, `the layout ${folder} is a list of lists of lists`);

  async function putLayout(digest: string, manifest: string, blobs: readonly Blob[]): Promise<void> {
    const { mediaType } = JSON.parse(manifest) as { mediaType?: string };
    const descriptor = {
      mediaType: mediaType ?? "application/vnd.oci.image.manifest.v1+json",
      digest,
      size: Buffer.byteLength(manifest),
      annotations: { "org.opencontainers.image.ref.name": "image" },
    };
    const put = (name: string, content: string | ReadableStream<Uint8Array>) =>
      tools.write(`${SOURCE}/${name}`, content);
    await put("oci-layout", JSON.stringify({ imageLayoutVersion: "1.0.0" }));
    await put("index.json", JSON.stringify({ schemaVersion: 2, manifests: [descriptor] }));
    await put(`blobs/${digest.replace(":", "/")}`, manifest);
    for (const blob of blobs)
      await put(`blobs/${blob.digest.replace(":", "/")}`, Bun.file(blobFile(blob.digest)).stream());
    await tools.copy({ reference: `oci:${SOURCE}:image`, tls: true });
  }
}

/** The only image of a layout need not name its platform. */
function onlyOne(text: string): string {
  const { manifests, ...rest } = JSON.parse(text) as { manifests?: { platform?: unknown }[] };
  if (manifests?.length !== 1) return text;
  const [{ platform: _, ...only } = {}] = manifests;
  return JSON.stringify({
    ...rest,
    manifests: [{ ...only, platform: { os: "linux", architecture: imageArchitecture() } }],
  });
}

async function fromArchive(path: string, tools: FetchTools): Promise<Provided> {
  const hash = new Bun.CryptoHasher("sha256");
  await demand(path);
  for await (const chunk of Bun.file(path).stream()) hash.update(chunk);
  return {
    digest: hash.digest("hex"),
    async put() {
      await tools.write(SOURCE, Bun.file(path).stream());
      try {
        await tools.copy({ reference: `oci-archive:${SOURCE}`, tls: true });
      } catch (first) {
        await tools.copy({ reference: `docker-archive:${SOURCE}`, tls: true }).catch((second) => {
          const [oci, docker] = [first, second].map((cause) => Fault.from(cause).message);
          throw new Fault(422, `it is neither an OCI nor a docker archive: ${oci}; ${docker}`, { cause: second });
        });
      }
    },
  };
}

/** Makes an image of one layer from a folder. The folder is read twice: first to see whether it has changed. */
async function fromFolder(path: string, tools: FetchTools, signal: AbortSignal): Promise<Provided> {
  if (!(await demand(path)).isDirectory()) throw new Fault(422, `${path} is not a folder`);
  const hash = new Bun.CryptoHasher("sha256");
  for await (const chunk of packed(path, signal)) hash.update(chunk);
  return {
    digest: hash.digest("hex"),
    async put() {
      await tools.write(SOURCE, packed(path, signal));
      await tools.pack(SOURCE);
    },
  };
}

function packed(path: string, signal: AbortSignal): ReadableStream<Uint8Array> {
  const over = AbortSignal.any([signal, AbortSignal.timeout(FETCH_COPY_MS)]);
  const argv = [
    "tar",
    "--create",
    "--sort=name",
    "--numeric-owner",
    "--xattrs",
    "--format=posix",
    "--pax-option=delete=atime,delete=ctime",
    "--directory",
    path,
    ".",
  ];
  try {
    const tar = Bun.spawn(argv, {
      stdin: "ignore",
      stdout: "pipe",
      stderr: "ignore",
      env: { ...MINIMAL_ENV },
      ...toolSession(),
      signal: over,
    });
    const ended = new TransformStream<Uint8Array, Uint8Array>({
      async flush() {
        if ((await tar.exited) !== 0) throw new Fault(422, `${path} could not be read as a whole`);
      },
    });
    return tar.stdout.pipeThrough(ended);
  } catch (cause) {
    throw cannotStart("tar", cause);
  }
}

async function document(path: string, layout: string): Promise<string> {
  const { size } = await demand(path);
  if (size > FETCH_DOCUMENT_MAX_BYTES) throw new Fault(422, `${path} of the layout ${layout} is too long`);
  return await readFile(path, "utf8");
}

async function demand(path: string) {
  return await stat(path).catch((cause) => {
    throw new Fault(422, `the setting images has it at ${path}, where it is not. FIX: see the setting images`, {
      cause,
    });
  });
}
