/** The Debian packages of a bundle: a folder that apt reads like a mirror, and so installs only what is missing. */
import { chmodSync, readdirSync, statSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sha256 } from "../base/sha256.ts";
import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import { installFrom, lines, updatePackageLists } from "../setup/packages.ts";
import { run } from "../system/command.ts";

const FETCH_MS = scaled(900_000);

/** Downloads packages with all that they need, also what this machine has already. */
export async function fetchPackages(
  folder: string,
  packages: readonly string[],
  progress: (line: string) => void,
): Promise<void> {
  const work = `${folder}.apt`;
  await mkdir(join(work, "archives/partial"), { recursive: true });
  await mkdir(folder, { recursive: true });
  await writeFile(join(work, "status"), "");
  try {
    await updatePackageLists(progress);
    const places = [`Dir::State::status=${work}/status`, `Dir::Cache::archives=${work}/archives`];
    // The machine's own installations use other files.
    const options = [...places, "Debug::NoLocking=1", "APT::Keep-Downloaded-Packages=1"].flatMap((each) => [
      "-o",
      each,
    ]);
    const argv = ["apt-get", "-q", ...options, "install", "-y", "--download-only", "--no-install-recommends"];
    await run([...argv, ...packages], { timeoutMs: FETCH_MS, onOutput: lines(progress) });
    for (const name of readdirSync(join(work, "archives"))) {
      if (name.endsWith(".deb")) await run(["mv", "--", join(work, "archives", name), join(folder, plain(name))]);
    }
    await writeFile(join(folder, "Packages"), await indexOf(folder));
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** The bundle's digests vouch for the packages; Debian's signatures are on lists that it does not have. */
export async function installFetched(
  folder: string,
  packages: readonly string[],
  progress: (line: string) => void,
): Promise<void> {
  const work = `${folder}.apt`;
  const source = join(work, "sources.list");
  // apt removes other files from its folder of lists.
  const [others, lists] = [join(work, "sources.list.d"), join(work, "lists")];
  await mkdir(join(lists, "partial"), { recursive: true });
  await mkdir(others);
  await writeFile(source, `deb [trusted=yes] file:${folder} ./\n`);
  const places = [`Dir::Etc::SourceList=${source}`, `Dir::Etc::SourceParts=${others}`, `Dir::State::Lists=${lists}`];
  try {
    await installFrom(
      places.flatMap((place) => ["-o", place]),
      packages,
      progress,
    );
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** apt writes the colon of a version as `%3a`, and decodes it in the names of an index. */
function plain(name: string): string {
  return name.replaceAll("%3a", "-");
}

async function indexOf(folder: string): Promise<string> {
  const entries: string[] = [];
  for (const name of readdirSync(folder).sort()) {
    const path = join(folder, name);
    chmodSync(path, 0o644);
    const control = await run(["dpkg-deb", "--field", path]);
    const digest = sha256(await Bun.file(path).bytes());
    entries.push(`${control.trim()}\nFilename: ./${name}\nSize: ${statSync(path).size}\nSHA256: ${digest}\n`);
  }
  if (entries.length === 0) throw new Fault(500, "apt-get fetched no packages");
  return entries.join("\n");
}
