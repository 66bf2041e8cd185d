/**
 * Checks volume files that processes of a checkpoint have open. Other sandboxes could change them since: a file that is
 * gone or shorter than before cannot be reopened for the process.
 */
import { Fault } from "../contract/fault.ts";
import type { VolumeMount } from "../contract/internal/host.ts";
import type { OpenFile, Runtime } from "./runtime/runtime.ts";
import type { VolumeContentProcesses } from "./volume/content.ts";

/** Returns files that have grown, with their sizes. Throws Fault 422 for the first that does not fit. */
export async function requireVolumeFiles(
  runtime: Pick<Runtime, "openFiles">,
  content: Pick<VolumeContentProcesses, "sizes">,
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
