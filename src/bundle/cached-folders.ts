/** The folders of the cache that setup makes of packages, and their copies in a bundle. */
import { existsSync } from "node:fs";
import { copyFile, mkdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { FETCH_IMAGE } from "../builder/registry/fetch-tools.ts";
import type { TemplateDefinition } from "../contract/template-definition.ts";
import { belowFile } from "../images/image-folder.ts";
import { BASE_IMAGE } from "../setup/base-image.ts";
import { makeAtomically, makeImage } from "../setup/step.ts";
import { templateImages } from "../setup/template-image.ts";
import { run } from "../system/command.ts";
import { Toolbox } from "../system/toolbox.ts";
import { COMPRESS, TAR_MS } from "./archive.ts";

const ARCHIVE = ".tar.gz";
const IMAGES = "images/";

/** Which of them a start needs depends on its settings. */
export interface Needs {
  cacheFolder: string;
  /** Built-in templates. */
  templates: readonly TemplateDefinition[];
  withRunsc: boolean;
}

/** Relative paths of the folders that setup makes of packages. Without them a start needs a network. */
export function neededFolders({ cacheFolder, templates, withRunsc }: Needs): string[] {
  const toolbox = new Toolbox(cacheFolder);
  // The first backup would install restic.
  const tools = [toolbox.toolFolder, toolbox.resticFolder, ...(withRunsc ? [toolbox.runscFolder] : [])];
  const images = new Set([BASE_IMAGE, FETCH_IMAGE, ...templates.flatMap(templateImages)]);
  return [...tools.map((folder) => basename(folder)), ...Array.from(images, (name) => IMAGES + name)];
}

/** Writes an archive of each folder, and the files beside images that name the ones below. */
export async function packFolders(
  cacheFolder: string,
  folders: readonly string[],
  target: string,
  progress: (line: string) => void,
): Promise<void> {
  for (const name of folders) {
    progress(name);
    const archive = join(target, archiveOf(name));
    await mkdir(dirname(archive), { recursive: true });
    const options = ["--create", COMPRESS, "--numeric-owner", "--sparse", "--file", archive];
    // Names and times of the files inside are all that a folder has; its own owner and mode are those of ".".
    await run(["tar", ...options, "--directory", join(cacheFolder, name), "."], { timeoutMs: TAR_MS });
    const below = belowFile(cacheFolder, basename(name));
    if (name.startsWith(IMAGES) && existsSync(below)) await copyFile(below, belowFile(target, basename(name)));
  }
}

export function isCached(cacheFolder: string, name: string): boolean {
  return existsSync(join(cacheFolder, name));
}

/** Path of a folder's archive below the one with all archives. */
export function archiveOf(name: string): string {
  return name + ARCHIVE;
}

/** Unpacks folders that the cache lacks. */
export async function unpackFolders(
  from: string,
  cacheFolder: string,
  folders: readonly string[],
  progress: (line: string) => void,
): Promise<void> {
  for (const name of folders.filter((each) => !isCached(cacheFolder, each))) {
    progress(name);
    const options = ["--extract", "--gzip", "--numeric-owner", "--same-owner", "--preserve-permissions"];
    const argv = ["tar", ...options, "--file", join(from, archiveOf(name)), "--directory"];
    const unpack = async (folder: string): Promise<void> => {
      await run([...argv, folder], { timeoutMs: TAR_MS });
    };
    if (name.startsWith(IMAGES)) await unpackImage(from, cacheFolder, basename(name), unpack);
    else await makeAtomically(join(cacheFolder, name), unpack);
  }
}

async function unpackImage(
  from: string,
  cacheFolder: string,
  image: string,
  unpack: (folder: string) => Promise<void>,
): Promise<void> {
  await makeImage(cacheFolder, image, async (folder) => {
    await unpack(folder);
    const below = belowFile(from, image);
    // Before the image, because an image with its name must be complete.
    if (existsSync(below)) await copyFile(below, belowFile(cacheFolder, image));
  });
}
