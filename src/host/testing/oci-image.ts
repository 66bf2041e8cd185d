/** Container images for tests: blobs by digest, written to a folder or pushed to a registry. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

type Bytes = Uint8Array<ArrayBuffer>;

const MANIFEST = "application/vnd.oci.image.manifest.v1+json";
const INDEX = "application/vnd.oci.image.index.v1+json";
const CONFIG = "application/vnd.oci.image.config.v1+json";
const PLAIN_LAYER = "application/vnd.oci.image.layer.v1.tar";
const LAYER = `${PLAIN_LAYER}+gzip`;

interface Descriptor {
  mediaType: string;
  digest: string;
  size: number;
  platform?: { os: string; architecture: string };
}

interface OciImage {
  blobs: Map<string, Bytes>;
  /** The manifest, or the index of several. */
  top: Descriptor;
}

interface Recipe {
  /**
   * Tar archives, lowest first: to be compressed, or plain if they are large, or already compressed with any content.
   */
  layers: readonly (Bytes | { plain: Bytes } | { packed: Bytes })[];
  architecture?: string;
  config?: Record<string, unknown>;
}

function thisArchitecture(): string {
  return process.arch === "x64" ? "amd64" : process.arch;
}

export function ociImage({ layers, architecture = thisArchitecture(), config = {} }: Recipe): OciImage {
  const blobs = new Map<string, Bytes>();
  const add = (mediaType: string, bytes: Bytes): Descriptor => {
    const digest = digestOf(bytes);
    blobs.set(digest, bytes);
    return { mediaType, digest, size: bytes.length };
  };
  const stacked = layers.map((layer) => {
    if ("plain" in layer) return add(PLAIN_LAYER, layer.plain);
    return add(LAYER, "packed" in layer ? layer.packed : gzipSync(layer));
  });
  const archiveOf = (layer: (typeof layers)[number]) => {
    if ("plain" in layer) return layer.plain;
    return "packed" in layer ? layer.packed : layer;
  };
  const rootfs = { type: "layers", diff_ids: layers.map((layer) => digestOf(archiveOf(layer))) };
  // Tools that add a layer expect as many history entries as layers.
  const history = layers.map(() => ({ created_by: "test" }));
  const described = add(CONFIG, json({ architecture, os: "linux", rootfs, history, config }));
  const top = add(MANIFEST, json({ schemaVersion: 2, mediaType: MANIFEST, config: described, layers: stacked }));
  return { blobs, top: { ...top, platform: { os: "linux", architecture } } };
}

/** One name for several images. */
export function ociIndex(images: readonly OciImage[]): OciImage {
  const bytes = json({ schemaVersion: 2, mediaType: INDEX, manifests: images.map(({ top }) => top) });
  const digest = digestOf(bytes);
  const blobs = new Map(images.flatMap((image) => [...image.blobs]));
  blobs.set(digest, bytes);
  return { blobs, top: { mediaType: INDEX, digest, size: bytes.length } };
}

/** Writes an OCI layout with one image. */
export function writeLayout(folder: string, { blobs, top }: OciImage): void {
  mkdirSync(join(folder, "blobs/sha256"), { recursive: true });
  writeFileSync(join(folder, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  writeFileSync(join(folder, "index.json"), json({ schemaVersion: 2, mediaType: INDEX, manifests: [top] }));
  for (const [digest, bytes] of blobs) writeFileSync(join(folder, "blobs", digest.replace(":", "/")), bytes);
}

/** Pushes an image as `repository:tag` to the registry at `url`. */
export async function push(url: string, repository: string, tag: string, { blobs, top }: OciImage): Promise<void> {
  const manifests: [string, string, Bytes][] = [];
  for (const [digest, bytes] of blobs) {
    const type = mediaTypeOf(bytes);
    if (type !== undefined) manifests.push([type, digest, bytes]);
    else await upload(`${url}/v2/${repository}/blobs/uploads/`, digest, bytes);
  }
  // Manifests before the index that refers to them.
  manifests.sort(([a]) => (a === MANIFEST ? -1 : 1));
  for (const [type, digest, bytes] of manifests) {
    const name = digest === top.digest ? tag : digest;
    await demanded(
      await fetch(`${url}/v2/${repository}/manifests/${name}`, {
        method: "PUT",
        headers: { "content-type": type },
        body: bytes,
      }),
    );
  }
}

async function upload(url: string, digest: string, bytes: Bytes): Promise<void> {
  const begun = await demanded(await fetch(url, { method: "POST" }));
  const place = new URL(begun.headers.get("location") ?? "", url);
  place.searchParams.set("digest", digest);
  const headers = { "content-type": "application/octet-stream" };
  await demanded(await fetch(place, { method: "PUT", headers, body: bytes }));
}

async function demanded(response: Response): Promise<Response> {
  if (!response.ok) throw new Error(`${response.url}: ${response.status} ${await response.text()}`);
  return response;
}

function mediaTypeOf(bytes: Bytes): string | undefined {
  if (bytes[0] !== "{".charCodeAt(0)) return undefined;
  const type: unknown = JSON.parse(Buffer.from(bytes).toString()).mediaType;
  return type === MANIFEST || type === INDEX ? type : undefined;
}

function digestOf(bytes: Bytes): string {
  return `sha256:${new Bun.CryptoHasher("sha256").update(bytes).digest("hex")}`;
}

function json(value: unknown): Bytes {
  return Buffer.from(JSON.stringify(value));
}
