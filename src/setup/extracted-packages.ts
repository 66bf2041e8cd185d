/** Unpacks Debian packages and their dependencies into a folder without running any of them. */

import { scaled } from "../base/time-factor.ts";
import { fetchDebian } from "./fetching.ts";

/** The oldest Debian suite whose CRIU (≥ 4.2) can checkpoint TCP sockets on kernels from 6.16 on. */
const SUITE = "forky";
const MAKE_MS = scaled(600_000);

export async function extractPackages(
  folder: string,
  packages: readonly string[],
  mirror: string | undefined,
  progress: (line: string) => void,
  suite = SUITE,
): Promise<void> {
  const options = [
    "--variant=extract",
    `--include=${packages.join(",")}`,
    // Mirrors lag behind; this relaxes the date check for this folder only. Signatures are still checked.
    '--aptopt=Acquire::Check-Valid-Until "false"',
  ];
  await fetchDebian(folder, { suite, mirror, options, timeoutMs: MAKE_MS }, progress);
}
