/** Puts together what builds are made of. */

import { join } from "node:path";
import type { Blobs } from "../../blobs/blobs.ts";
import { Fault } from "../../contract/fault.ts";
import { Checkpoints } from "../checkpoint/checkpoints.ts";
import type { Disks } from "../disk/disks.ts";
import {
  BUILD_LOG_MAX_BYTES,
  BUILD_MAX_MS,
  BUILD_READY_DEFAULT_MS,
  BUILD_READY_MAX_MS,
  LAYERS_KEPT_MS,
  LAYERS_MAX_BYTES,
} from "../limits.ts";
import type { Network } from "../network/network.ts";
import { FETCH_IMAGE } from "../registry/fetch-tools.ts";
import type { Walls } from "../runtime/walls.ts";
import { Checkpointing } from "../sandbox/checkpointing.ts";
import type { RunningSandboxes } from "../sandbox/running-sandboxes.ts";
import type { Starting } from "../sandbox/starting.ts";
import type { DataFolder } from "../system/data-folder.ts";
import type { Volumes } from "../volume/volumes.ts";
import { BaseImages } from "./base-images.ts";
import type { BuildBounds, BuildImages } from "./build-job.ts";
import type { BuiltinImages, FetchOptions } from "./build-options.ts";
import { Builds } from "./builds.ts";
import { Layers } from "./layers.ts";
import { BuildResults } from "./results.ts";
import { type Shelf, TemplateSandboxes } from "./template-sandboxes.ts";

/** What the operator says about builds. */
export interface BuildOptions {
  /** Where the files are that builds copy. */
  files?: Pick<Blobs, "open">;
  /** Where images are fetched from. */
  fetching?: Partial<FetchOptions>;
  /** Absent: no template comes with this machine. */
  builtinImages?: BuiltinImages;
  /** What a build may take; each has a default. */
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
  walls: Walls;
  checkpoints: Checkpoints;
  checkpointing: Checkpointing;
  starting: Starting;
  running: RunningSandboxes;
  images: BuildImages;
  volumes: Volumes;
  shelf: Shelf;
  destroy(id: string): Promise<void>;
}

export function openBuilds(parts: MachineParts): { sandboxes: TemplateSandboxes; layers: Layers; builds: Builds } {
  const { disks, running } = parts;
  // For as long as the server runs, whether it fetches anything or not.
  if (parts.fetching !== undefined) parts.images.hold(FETCH_IMAGE);
  const bounds = { ...BOUNDS, ...parts.builds };
  const sandboxes = new TemplateSandboxes({ ...parts, bounds });
  const written = new Checkpoints(disks.layersFolder);
  const layers = new Layers(written, new Checkpointing({ ...parts, checkpoints: written }));
  const results = new BuildResults(disks.resultsFolder);
  const bases = new BaseImages({
    ...parts,
    sandboxes,
    notesFolder: join(parts.data.path, "fetched-images"),
    options: parts.fetching ?? {},
  });
  const builds = new Builds(
    {
      ...parts,
      bases,
      builtins: parts.builtinImages ?? NO_BUILTINS,
      bounds,
      sandboxes,
      layers,
      results,
      files: parts.files ?? NO_FILES,
    },
    (id, entries) => running.tell({ kind: "build-log", id, entries }),
  );
  return { sandboxes, layers, builds };
}
