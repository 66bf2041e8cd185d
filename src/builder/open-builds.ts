/** Connects the parts of the builder. */
import type { Blobs } from "../blobs/blobs.ts";
import { Fault } from "../contract/fault.ts";
import type { Disks } from "../images/disk/disks.ts";
import type { Images } from "../images/images.ts";
import { Checkpoints } from "../sandbox/checkpoint/checkpoints.ts";
import { Checkpointing } from "../sandbox/checkpointing.ts";
import type { Network } from "../sandbox/network/network.ts";
import type { RunningSandboxes } from "../sandbox/running-sandboxes.ts";
import type { Runtimes } from "../sandbox/runtime/runtimes.ts";
import type { Volumes } from "../sandbox/volume/volume-disks.ts";
import type { DataFolder } from "../system/data-folder.ts";
import { BaseImages, type FetchOptions } from "./base-images.ts";
import type { BuildBounds, BuiltinImages } from "./build-job.ts";
import { BuildRunner } from "./build-runner.ts";
import type { SandboxSource } from "./build-sandbox.ts";
import { Layers } from "./layers.ts";
import { FETCH_IMAGE } from "./registry/fetch-tools.ts";
import { BuildResults } from "./results.ts";

/** Default limits of a build. */
export const BUILD_MAX_MS = 3_600_000;
const BUILD_LOG_MAX_BYTES = 10 * 1024 * 1024;
export const BUILD_READY_MAX_MS = 600_000;
/** Wait after a start command that has no ready command. */
export const BUILD_READY_DEFAULT_MS = 20_000;
/** Cached layers: total size, and how long an unused one is kept. */
export const LAYERS_MAX_BYTES = 20 * 1024 ** 3;
export const LAYERS_KEPT_MS = 7 * 24 * 3_600_000;

export interface BuildOptions {
  files?: Pick<Blobs, "open">;
  fetching?: Partial<FetchOptions>;
  /** Absent: no built-in templates on this host. */
  builtinImages?: BuiltinImages;
  builds?: Partial<BuildBounds>;
}

const BOUNDS: BuildBounds = {
  maxMs: BUILD_MAX_MS,
  readyMaxMs: BUILD_READY_MAX_MS,
  readyDefaultMs: BUILD_READY_DEFAULT_MS,
  logMaxBytes: BUILD_LOG_MAX_BYTES,
  layersMaxBytes: LAYERS_MAX_BYTES,
  layersKeptMs: LAYERS_KEPT_MS,
};

const NO_FILES: Pick<Blobs, "open"> = {
  open: (name) => Promise.reject(new Fault(404, `there is no file ${JSON.stringify(name)}`)),
};

const NO_BUILTINS: BuiltinImages = {
  make: (template) => Promise.reject(new Fault(404, `no template ${JSON.stringify(template)} comes with this machine`)),
  current: () => [],
};

interface MachineParts extends BuildOptions {
  data: DataFolder;
  guestFolder: string;
  network: Network;
  disks: Disks;
  runtimes: Runtimes;
  checkpoints: Checkpoints;
  checkpointing: Checkpointing;
  running: RunningSandboxes;
  images: Images;
  volumes: Volumes;
  sandboxes: SandboxSource;
}

export function boundsOf({ builds }: BuildOptions): BuildBounds {
  return { ...BOUNDS, ...builds };
}

export function openBuilds(parts: MachineParts): { layers: Layers; builds: BuildRunner } {
  const { disks, running } = parts;
  // Held as long as the server runs, so that collection never removes it.
  if (parts.fetching !== undefined) parts.images.hold(FETCH_IMAGE);
  const written = new Checkpoints(disks.layersFolder);
  const layers = new Layers(written, new Checkpointing({ ...parts, checkpoints: written }));
  const results = new BuildResults(disks.resultsFolder);
  const bases = new BaseImages({
    ...parts,
    notesFolder: parts.data.fetchedNotesFolder,
    options: parts.fetching ?? {},
  });
  const builds = new BuildRunner(
    {
      ...parts,
      bases,
      builtins: parts.builtinImages ?? NO_BUILTINS,
      bounds: boundsOf(parts),
      layers,
      results,
      files: parts.files ?? NO_FILES,
    },
    (id, entries) => running.emit({ kind: "build-log", id, entries }),
  );
  return { layers, builds };
}
