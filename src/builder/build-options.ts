/** Operator settings about the sources of images. */
import type { Blobs } from "../blobs/blobs.ts";
import type { AllowedRegistry } from "./registry/allowed-registries.ts";
import type { LocalImage } from "./registry/local-images.ts";

/** Root filesystems of built-in templates. */
export interface BuiltinImages {
  /** Makes the image and returns its name. Fault 404: not a built-in template. */
  make(template: string, signal: AbortSignal, say: (message: string) => void): Promise<string>;
  /** Image names of all built-in templates and of their parents, whether they exist yet or not. */
  current(): readonly string[];
}

export interface FetchOptions {
  /** Images of built-in templates, by template name. */
  templates: Readonly<Record<string, string>>;
  /** Images on this host, by the names that builds use. */
  local: Readonly<Record<string, LocalImage>>;
  /** Registries in private networks, or without TLS. */
  registries: readonly AllowedRegistry[];
  /** Candidate files with the host's trusted certificates; the first existing one is used. */
  authorities: readonly string[];
  /** Storage of the registry blob cache. */
  blobs: Blobs;
  /** Disk size of the sandbox that fetches. */
  diskSizeMB: number;
  /** Timeouts of a registry: to resolve an image name, and without any progress of a download. */
  questionMaxMs: number;
  stalledMaxMs: number;
}
