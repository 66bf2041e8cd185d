/** Results of builds by the key of their steps, as hints for identical builds: an image may be gone. */
import { mkdirSync, readFileSync, utimesSync } from "node:fs";
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { replaceFile } from "../system/replace-file.ts";

export interface BuildResult {
  image: string;
  /** The checkpoint of the start command's processes. */
  checkpoint?: string;
}

export class BuildResults {
  constructor(readonly folder: string) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  find(key: string): BuildResult | undefined {
    const path = join(this.folder, `${key}.json`);
    const result = read(path);
    const now = new Date();
    if (result !== undefined) utimesSync(path, now, now);
    return result;
  }

  keep(key: string, result: BuildResult): void {
    replaceFile(join(this.folder, `${key}.json`), JSON.stringify(result));
  }

  async collect(isUsable: (result: BuildResult) => boolean, keptMs: number): Promise<void> {
    for (const name of await readdir(this.folder)) {
      const path = join(this.folder, name);
      const used = await stat(path).catch(() => undefined);
      if (used === undefined) continue;
      const result = read(path);
      const isFresh = used.mtimeMs >= Date.now() - keptMs;
      if (isFresh && name.endsWith(".json") && result !== undefined && isUsable(result)) continue;
      await rm(path, { force: true });
    }
  }
}

function read(path: string): BuildResult | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as BuildResult;
  } catch {
    // No entry, or a power failure truncated it.
    return undefined;
  }
}
