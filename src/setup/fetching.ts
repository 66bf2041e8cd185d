/** Fetches packages for setup with retries, so that a brief failure of a mirror or of DNS does not end it. */
import { mkdir, rm } from "node:fs/promises";
import { run } from "../system/command.ts";
import { isUnreached } from "./fetch-faults.ts";
import { lines } from "./packages.ts";

type Progress = (line: string) => void;

/** Delays before retries. Without a network, setup fails after these. */
const PAUSES_MS = [2_000, 8_000];

export async function fetching<Got>(
  fetch: () => Promise<Got>,
  progress: Progress,
  pausesMs: readonly number[] = PAUSES_MS,
): Promise<Got> {
  for (const pauseMs of pausesMs) {
    try {
      return await fetch();
    } catch (cause) {
      if (!isUnreached(cause)) throw cause;
      progress(`not all packages could be fetched; trying again in ${pauseMs / 1000} s`);
      await Bun.sleep(pauseMs);
    }
  }
  return await fetch();
}

interface Debian {
  suite: string;
  mirror: string | undefined;
  options: readonly string[];
  timeoutMs: number;
}

/** Fills an empty folder with what mmdebstrap makes of packages. */
export async function fetchDebian(
  folder: string,
  { suite, mirror, options, timeoutMs }: Debian,
  progress: Progress,
): Promise<void> {
  const argv = ["mmdebstrap", ...options, suite, folder, ...(mirror === undefined ? [] : [mirror])];
  let isFirst = true;
  await fetching(async () => {
    if (!isFirst) await rm(folder, { recursive: true, force: true });
    isFirst = false;
    await mkdir(folder, { recursive: true, mode: 0o755 });
    await run(argv, { timeoutMs, onOutput: lines(progress) });
  }, progress);
}
