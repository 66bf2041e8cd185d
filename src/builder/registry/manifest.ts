/** Reads a registry's untrusted response: which image fits this platform, and its blobs. Pure. */
import { Fault } from "../../contract/fault.ts";
import { BUILD_VALUE_MAX_BYTES, BUILD_VARIABLES_MAX_BYTES } from "../limits.ts";

/** Maximum download size of an image and its maximum number of layers. */
export const FETCH_MAX_BYTES = 8 * 1024 ** 3;
export const FETCH_LAYERS_MAX = 200;

export interface Blob {
  digest: string;
  bytes: number;
}

/** The target of an image name: the image itself, or the entry of an index for this platform. */
type Found = { kind: "image"; config: Blob; layers: readonly Blob[] } | { kind: "other"; digest: string };

const DIGEST = /^sha256:[0-9a-f]{64}$/;
const NAMES: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

/** The processor's name in image manifests. */
export function imageArchitecture(): string {
  return NAMES[process.arch] ?? process.arch;
}

/** Fault 422: not a manifest, or not for this platform. `image` is for the message. */
export function readManifest(text: string, image: string): Found {
  const refuse = (reason: string) => new Fault(422, `the image ${image} cannot be used: ${reason}`);
  const answer = asRecord(parseJson(text));
  if (Array.isArray(answer.manifests)) return { kind: "other", digest: forThisMachine(answer.manifests, refuse) };
  if (answer.schemaVersion === 1) throw refuse("it is in the format of 2015. FIX: push it again with a current tool");
  if (!Array.isArray(answer.layers)) throw refuse("the registry's manifest does not describe an image");
  const layers = answer.layers.map((layer) => blobIn(layer, refuse));
  if (layers.length > FETCH_LAYERS_MAX) {
    throw refuse(`it has ${layers.length} layers, ${FETCH_LAYERS_MAX} are allowed`);
  }
  const bytes = layers.reduce((sum, layer) => sum + layer.bytes, 0);
  if (bytes > FETCH_MAX_BYTES) {
    throw refuse(`its layers have ${mebibytes(bytes)} MiB, ${mebibytes(FETCH_MAX_BYTES)} are allowed`);
  }
  return { kind: "image", config: blobIn(answer.config, refuse), layers };
}

function forThisMachine(manifests: readonly unknown[], refuse: (reason: string) => Fault): string {
  const offers = manifests.map((entry) => ({ ...platformOf(entry), digest: asRecord(entry).digest }));
  const wanted = imageArchitecture();
  const fitting = offers.filter(({ os, architecture }) => os === "linux" && architecture === wanted);
  const [best] = fitting.toSorted((a, b) => rank(a.variant) - rank(b.variant));
  if (typeof best?.digest === "string" && DIGEST.test(best.digest)) return best.digest;
  // Indexes also list signatures and the like, without a real platform.
  const others = [...new Set(offers.map(({ os, architecture }) => `${os}/${architecture}`))].filter(isPlatform);
  const there = others.length === 0 ? "none" : others.slice(0, 20).join(", ");
  throw refuse(`it has no variant for linux/${wanted}, this machine's platform; it has ${there}`);
}

/** The plainest variant of an architecture runs everywhere. */
function rank(variant: string): number {
  return ["", "v8", "v1"].includes(variant) ? 0 : 1;
}

function isPlatform(text: string): boolean {
  return /^[a-z0-9]{1,20}\/[a-z0-9_]{1,20}$/.test(text) && !text.startsWith("unknown/");
}

function platformOf(entry: unknown): { os: string; architecture: string; variant: string } {
  const { os, architecture, variant } = asRecord(asRecord(entry).platform);
  return { os: textOr(os, "linux"), architecture: textOr(architecture, ""), variant: textOr(variant, "") };
}

/** A value of another type must match nothing; not every JSON value converts to text. */
function textOr(value: unknown, absent: string): string {
  if (typeof value === "string") return value;
  return value === undefined || value === null ? absent : "?";
}

function blobIn(value: unknown, refuse: (reason: string) => Fault): Blob {
  const { digest, size } = asRecord(value);
  if (typeof digest !== "string" || !DIGEST.test(digest)) throw refuse("a layer of it has no digest of sha256");
  if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0) throw refuse("a layer of it has no size");
  return { digest, bytes: size };
}

/** The variables of an image's configuration. Fault 422: another platform, or variables that no process can have. */
export function readConfig(text: string, image: string): { envVars: Record<string, string> } {
  const answer = asRecord(parseJson(text));
  const { os, architecture } = answer;
  const wanted = imageArchitecture();
  if (os !== "linux" || architecture !== wanted) {
    const isNamed = typeof os === "string" && typeof architecture === "string" && isPlatform(`${os}/${architecture}`);
    const there = isNamed ? `${os}/${architecture}` : "another platform";
    throw new Fault(422, `the image ${image} cannot be used: it is for ${there}, this machine is linux/${wanted}`);
  }
  const { Env: entries } = asRecord(answer.config);
  const envVars: Record<string, string> = {};
  for (const entry of Array.isArray(entries) ? entries : []) {
    if (typeof entry !== "string") continue;
    const at = entry.indexOf("=");
    const name = entry.slice(0, at);
    if (at > 0 && /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) envVars[name] = entry.slice(at + 1);
  }
  refuseUnfit(envVars, image);
  return { envVars };
}

/** The same limits as for variables of steps: they are passed to every command, and some stores reject NUL in text. */
function refuseUnfit(envVars: Readonly<Record<string, string>>, image: string): void {
  const refuse = (what: string) => new Fault(422, `the image ${image} cannot be used: ${what}`);
  let bytes = 0;
  for (const [name, value] of Object.entries(envVars)) {
    const own = Buffer.byteLength(name + value);
    bytes += own;
    if (value.includes("\0")) throw refuse("one of its variables has a NUL character in it");
    if (own <= BUILD_VALUE_MAX_BYTES && bytes <= BUILD_VARIABLES_MAX_BYTES) continue;
    throw refuse(
      `its variables are too long; ${BUILD_VALUE_MAX_BYTES} bytes are possible of one, and ` +
        `${BUILD_VARIABLES_MAX_BYTES} of all`,
    );
  }
}

/** Undefined: not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Empty if it is not an object. */
export function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function mebibytes(bytes: number): number {
  return Math.ceil(bytes / 1024 ** 2);
}
