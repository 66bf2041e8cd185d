/** What the operator says about where images come from. */
import type { Blobs } from "../blobs/blobs.ts";
import type { AllowedRegistry } from "./registry/allowed-registries.ts";
import type { LocalImage } from "./registry/local-images.ts";

/** Root filesystems of templates that come with Sandlot. */
export interface BuiltinImages {
  /** Answers the name of the image, once it is whole. Fault 404 when no such template comes with Sandlot. */
  make(template: string, signal: AbortSignal, say: (message: string) => void): Promise<string>;
  /** Names of the images of all these templates, whether they are made or not, with what they are stacked on. */
  current(): readonly string[];
}

export interface FetchOptions {
  /** Images of built-in templates, by the templates' names. */
  templates: Readonly<Record<string, string>>;
  /** Images that are on this machine, by the names that builds ask for. */
  local: Readonly<Record<string, LocalImage>>;
  /** Those in private networks, or without TLS. */
  registries: readonly AllowedRegistry[];
  /** Where the certificates may be that this machine trusts; the first file that is there counts. */
  authorities: readonly string[];
  /** Where blobs of registries are kept. */
  blobs: Blobs;
  /** Of the sandbox that fetches. */
  diskSizeMB: number;
  /** How long a registry may take to say what a name leads to, and how long to send nothing of a blob. */
  questionMaxMs: number;
  stalledMaxMs: number;
}
