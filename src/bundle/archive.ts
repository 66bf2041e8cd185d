/** The file of a bundle: a tar archive with `manifest.json` first, and the digest of every other file in it. */
import { createReadStream, readdirSync, statSync } from "node:fs";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import { attempt, run } from "../system/command.ts";
import { type BundleTarget, damaged, type Manifest, manifestOf, parseManifest } from "./manifest.ts";

const MANIFEST = "manifest.json";
const MANIFEST_MAX_BYTES = 1024 * 1024;
/** Option of tar. Better compression takes minutes and saves a tenth. */
export const COMPRESS = "--use-compress-program=gzip -1";
export const TAR_MS = scaled(1_800_000);

/** Packs all files of a folder. An interrupted write leaves an older file as it was. */
export async function writeBundle(file: string, machine: BundleTarget, folder: string): Promise<void> {
  const files: Manifest["files"] = {};
  for (const path of filesBelow(folder)) files[path] = await digestOf(join(folder, path));
  await writeFile(join(folder, MANIFEST), manifestOf(machine, files));
  const unfinished = `${file}.unfinished`;
  try {
    const order = [MANIFEST, ...Object.keys(files)];
    await run(["tar", "--create", "--file", unfinished, "--directory", folder, "--", ...order], { timeoutMs: TAR_MS });
    await rename(unfinished, file);
  } finally {
    await rm(unfinished, { force: true });
  }
}

export async function readManifest(file: string): Promise<Manifest> {
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) throw new Fault(404, `there is no bundle ${file}`);
  // Not the whole file: it may be of any size, and tar reads from the start.
  const argv = ["tar", "--extract", "--to-stdout", "--occurrence=1", "--file", file, MANIFEST];
  const { exitCode, stdout, stderr } = await attempt(argv, { timeoutMs: TAR_MS, outputMaxBytes: MANIFEST_MAX_BYTES });
  if (exitCode !== 0 && stdout === "") {
    const fix = "FIX: name a file that `sandlot bundle` has made";
    throw new Fault(422, `${file} is not a bundle. ${fix}`, { cause: new Error(stderr.trim()) });
  }
  return parseManifest(file, stdout);
}

/** Unpacks into an empty folder. Fault 422 unless every file is there with its digest. */
export async function unpackBundle(file: string, { files }: Manifest, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o755 });
  const argv = ["tar", "--extract", "--no-same-owner", "--file", file, "--directory", folder];
  const { exitCode, stderr } = await attempt(argv, { timeoutMs: TAR_MS });
  if (exitCode !== 0) {
    if (/No space left/.test(stderr)) throw new Fault(507, `the disk of ${folder} is full. FIX: make room on it`);
    throw damaged(file, "tar cannot unpack it", new Error(stderr.trim()));
  }
  for (const [path, digest] of Object.entries(files)) {
    const unpacked = join(folder, path);
    if (!statSync(unpacked, { throwIfNoEntry: false })?.isFile()) throw damaged(file, `${path} is missing`);
    if ((await digestOf(unpacked)) !== digest) throw damaged(file, `${path} does not match its digest`);
  }
}

async function digestOf(path: string): Promise<string> {
  const hash = new Bun.CryptoHasher("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk as Uint8Array);
  return hash.digest("hex");
}

/** In the order of their names, so that the same content makes the same bundle. */
function filesBelow(folder: string): string[] {
  const found = readdirSync(folder, { recursive: true }) as string[];
  return found.filter((path) => statSync(join(folder, path)).isFile()).sort();
}
