/** What a bundle is for and what it holds: the file `manifest.json` at its start. Pure. */
import { z } from "zod";
import { Fault } from "../contract/fault.ts";

/** Increase it when a reader must do something new. */
const FORMAT = 1;

const manifestSchema = z.object({
  format: z.literal(FORMAT),
  /** Version of Sandlot. */
  sandlot: z.string(),
  architecture: z.string(),
  /** Release of the Debian packages in it, such as `debian 13`. */
  system: z.string(),
  /** SHA-256 of each other file in the bundle, by its path there. */
  files: z.record(z.string().regex(/^[a-z]+(?:\/[^/]*[^/.][^/]*)+$/), z.string().regex(/^[0-9a-f]{64}$/)),
});

export type Manifest = z.infer<typeof manifestSchema>;

/** The machine that a bundle is made on or installed on. */
export type BundleTarget = Pick<Manifest, "sandlot" | "architecture" | "system">;

export function manifestOf({ sandlot, architecture, system }: BundleTarget, files: Manifest["files"]): string {
  const manifest: Manifest = { format: FORMAT, sandlot, architecture, system, files };
  return JSON.stringify(manifest, null, 1);
}

/** Fault 422 if it is none, or one of another format. */
export function parseManifest(file: string, text: string): Manifest {
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch (cause) {
    throw damaged(file, "its manifest.json is not JSON", cause);
  }
  const format = (given as { format?: unknown } | null)?.format;
  if (typeof format === "number" && format !== FORMAT) {
    const fix = "FIX: make and install it with the same version of Sandlot";
    throw new Fault(422, `the bundle ${file} has format ${format}; this version reads format ${FORMAT}. ${fix}`);
  }
  const { data, error } = manifestSchema.safeParse(given);
  if (data === undefined) throw damaged(file, "its manifest.json is invalid", error);
  return data;
}

export function requireArchitecture(file: string, manifest: Manifest, here: BundleTarget): void {
  if (manifest.architecture === here.architecture) return;
  const fix = `FIX: make one on a machine with ${here.architecture}`;
  throw new Fault(
    422,
    `the bundle ${file} is for ${manifest.architecture}; this machine is ${here.architecture}. ${fix}`,
  );
}

/** Only machines that lack Debian packages need those of their own release. */
export function requireRelease(file: string, manifest: Manifest, here: BundleTarget, lacking: readonly string[]): void {
  if (manifest.system === here.system) return;
  const fix = `FIX: make a bundle on ${here.system}, or install them with your package manager: ${lacking.join(" ")}`;
  throw new Fault(422, `the bundle ${file} has packages of ${manifest.system}; this machine is ${here.system}. ${fix}`);
}

/** `lacking`: folders of the cache that this start needs. */
export function requireFolders(file: string, manifest: Manifest, here: BundleTarget, lacking: readonly string[]): void {
  if (lacking.length === 0) return;
  const versions = `Sandlot ${manifest.sandlot} made it, and this is ${here.sandlot}`;
  const fix = "FIX: make it with this version and the same settings; `--with` adds built-in templates";
  throw new Fault(422, `the bundle ${file} lacks ${lacking.join(", ")}; ${versions}. ${fix}`);
}

export function damaged(file: string, how: string, cause?: unknown): Fault {
  return new Fault(422, `the bundle ${file} is damaged: ${how}. FIX: copy it again, or make it again`, { cause });
}

/** Name and number of a release, from the text of /etc/os-release. */
export function releaseOf(text: string): string {
  const value = (key: string) => new RegExp(`^${key}="?([^"\n]*)"?$`, "m").exec(text)?.[1] ?? "unknown";
  return `${value("ID")} ${value("VERSION_ID")}`;
}
