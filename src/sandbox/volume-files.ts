/**
 * Files of volumes that processes of a checkpoint have open. While it lay there, others could do to them what they
 * liked: one that is gone, or is shorter than it was, cannot be given back to the process.
 */
import { Fault } from "../contract/fault.ts";
import type { VolumeMount } from "../contract/internal/host.ts";
import type { OpenFile, Runtime } from "./runtime/runtime.ts";

interface Sizes {
  /** How long each is; null where there is none. */
  sizes(volume: string, paths: readonly string[]): Promise<(number | null)[]>;
}

/** Answers those that have grown, with their sizes. Fault 422 names the first that does not fit. */
export async function demandVolumeFiles(
  runtime: Pick<Runtime, "openFiles">,
  content: Sizes,
  images: string,
  mounts: readonly VolumeMount[],
): Promise<Map<string, number>> {
  const grown = new Map<string, number>();
  for (const { volume, path: folder } of mounts) {
    const files = runtime.openFiles(images, folder);
    if (files.length === 0) continue;
    const sizes = await content.sizes(
      volume,
      files.map(({ path }) => path.slice(folder.length) || "/"),
    );
    for (const [at, file] of files.entries()) {
      const bytes = sizes[at] ?? null;
      if (bytes === null) throw unfit(file, "is gone from its volume");
      if (file.bytes === undefined || bytes === file.bytes) continue;
      if (bytes < file.bytes)
        throw unfit(file, `has become shorter on its volume, ${bytes} bytes instead of ${file.bytes}`);
      grown.set(file.path, bytes);
    }
  }
  return grown;
}

function unfit({ shownPath }: OpenFile, what: string): Fault {
  return new Fault(
    422,
    `${JSON.stringify(shownPath)}, which a process of this sandbox has open, ${what} since the checkpoint. ` +
      "Put it back as it was, or memory: false starts the sandbox from its disk",
  );
}
