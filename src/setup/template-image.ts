/**
 * The root filesystem of a built-in template, in two folders: Debian packages, which take minutes, and on top of them
 * the files, npm packages and programs of the definition. The names are hashes of the sources, so that a changed
 * definition makes new folders and existing sandboxes keep theirs.
 */
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lchownSync,
  linkSync,
  lstatSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
} from "node:fs";
import { copyFile, mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { sha256 } from "../base/sha256.ts";
import { scaled } from "../base/time-factor.ts";
import { buildFile } from "../contract/runtime/image-files.ts";
import { BUN_IN_TEMPLATE, FILES_OF_TEMPLATE, type TemplateDefinition } from "../contract/template-definition.ts";
import { chooseImage } from "../images/cached-images.ts";
import { belowFile, imageBelow, imageFolder } from "../images/image-folder.ts";
import { MINIMAL_ENV, run } from "../system/command.ts";
import { shiftedId } from "../system/id-range.ts";
import { BASE_IMAGE, BASE_PACKAGES, baseImageStep, debianImageStep, shiftOwners } from "./base-image.ts";
import { fetchFault, npmPlace } from "./fetch-faults.ts";
import { fetching } from "./fetching.ts";
import { sourcesOf } from "./guest-sources.ts";
import { lines } from "./packages.ts";
import { makeImage, type SetupStep } from "./step.ts";

const PROJECT = join(import.meta.dir, "../..");
/** Programs with this suffix run on Node, which every template has; all others run on Bun. */
const FOR_NODE = ".mjs";
const BUNDLE_MS = scaled(120_000);
const NPM_MS = scaled(600_000);
const HASH_LENGTH = 16;
/** Bump these when the code below makes another root filesystem of the same packages, or of the same definition. */
const PACKAGES_VERSION = 2;
const VERSION = 3;
const HOME = "home/user";
const USER_ID = 1000;

export function templateImage(definition: TemplateDefinition): string {
  return `${definition.name}-${templateVersion(definition)}`;
}

/** The images of this version: its own, and its parent. */
export function templateImages(definition: TemplateDefinition): string[] {
  return [templateImage(definition), debianImage(definition)];
}

/** Whether an image of any version exists together with its parent, so that a server starting now finds both. */
export function hasTemplateImage(cacheFolder: string, image: string): boolean {
  const below = imageBelow(cacheFolder, image);
  return [image, ...(below === null ? [] : [below])].every((name) => chooseImage(cacheFolder, name));
}

export function templateImageSteps(
  cacheFolder: string,
  mirror: string | undefined,
  definition: TemplateDefinition,
): SetupStep[] {
  const { name, finish } = definition;
  const below = debianImage(definition);
  const top = topStep(cacheFolder, definition, below);
  if (below === BASE_IMAGE) return [baseImageStep(cacheFolder, mirror), top];
  const packages = packagesOf(definition);
  const title = `the packages of the template ${name} (Debian, some minutes)`;
  return [debianImageStep(cacheFolder, mirror, { image: below, title, packages, finish }), top];
}

function packagesOf({ packages }: TemplateDefinition): string[] {
  return [...new Set([...BASE_PACKAGES, ...packages])].sort();
}

/** Without packages and shell lines of its own, a template uses the `base` image. */
function debianImage(definition: TemplateDefinition): string {
  if (definition.packages.length === 0 && definition.finish.length === 0) return BASE_IMAGE;
  const hash = new Bun.CryptoHasher("sha256").update(
    JSON.stringify([packagesOf(definition), definition.finish, PACKAGES_VERSION]),
  );
  return `debian-${hash.digest("hex").slice(0, HASH_LENGTH)}`;
}

/** Independent of the location of the definition, its files and its programs. */
export function templateVersion(definition: TemplateDefinition): string {
  const hash = new Bun.CryptoHasher("sha256").update(JSON.stringify([definition, VERSION, Bun.version]));
  hash.update(debianImage(definition));
  const sources = Object.values(definition.programs).map((program) => sourcesOf(PROJECT, program));
  const files = [...new Set([...sources.flatMap((source) => source.files), ...ownFiles(definition)])].sort();
  for (const file of files) hash.update(relative(PROJECT, file)).update(readFileSync(file));
  for (const { packages } of sources) hash.update(packages.join());
  return hash.digest("hex").slice(0, HASH_LENGTH);
}

/** The id of the first build of this version. It is the same on every server, because the image contains it. */
export function firstBuildOf(definition: TemplateDefinition): string {
  const hex = sha256(definition.id + templateVersion(definition));
  const parts = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `4${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ];
  return parts.join("-");
}

function folderOf({ name }: TemplateDefinition): string {
  return join(PROJECT, "templates", name);
}

/** Absolute paths of the files to copy into the root filesystem and of its npm manifest and lock file. */
function ownFiles(definition: TemplateDefinition): string[] {
  const folder = folderOf(definition);
  const npm = definition.npm;
  const found = fileFolders(definition).flatMap(filesBelow);
  if (npm !== undefined)
    found.push(...["package.json", "package-lock.json"].map((name) => join(folder, npm.folder, name)));
  return found;
}

/** Files of the other template come first. */
function fileFolders({ name, filesAlsoOf }: TemplateDefinition): string[] {
  const templates = filesAlsoOf === undefined ? [name] : [filesAlsoOf, name];
  return templates.map((template) => join(PROJECT, "templates", template, FILES_OF_TEMPLATE)).filter(existsSync);
}

function filesBelow(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => !entry.isDirectory()).map((entry) => join(entry.parentPath, entry.name));
}

function topStep(cacheFolder: string, definition: TemplateDefinition, below: string): SetupStep {
  const image = templateImage(definition);
  return {
    title: `the template ${definition.name}`,
    done: () => chooseImage(cacheFolder, image),
    make: (progress) =>
      makeImage(cacheFolder, image, async (folder) => {
        copyFiles(definition, folder);
        if (definition.npm !== undefined)
          await installNpm(definition, definition.npm, { root: folder, cacheFolder }, progress);
        progress("bundling its programs");
        await addPrograms(definition, folder);
        const ids = { templateId: definition.id, buildId: firstBuildOf(definition) };
        await writeFile(join(folder, ".e2b"), buildFile(ids));
        giveHomeToUser(folder);
        shiftOwners(folder);
        if (Object.keys(definition.programs).length > 0) await addBun(cacheFolder, folder);
        keepFolders(folder, imageFolder(cacheFolder, below));
        // Before the image, because an image with its name must be complete.
        await writeFile(belowFile(cacheFolder, image), below);
      }),
  };
}

function copyFiles(definition: TemplateDefinition, root: string): void {
  const folders = fileFolders(definition);
  if (folders.length === 0) return;
  for (const from of folders) cpSync(from, root, { recursive: true });
  for (const [path, target] of Object.entries(definition.links ?? {})) symlinkSync(target, join(root, path));
  // Checked-out files have the owner and mode of the user that checked them out.
  for (const path of ["", ...(readdirSync(root, { recursive: true }) as string[])].map((name) => join(root, name))) {
    lchownSync(path, 0, 0);
    // Do not follow links: they are meant for a sandbox and would resolve on the host.
    const stat = lstatSync(path);
    if (stat.isDirectory()) chmodSync(path, 0o755);
    else if (stat.isFile()) chmodSync(path, (stat.mode & 0o100) === 0 ? 0o644 : 0o755);
  }
}

/** A folder in both images shows the owner and mode of the upper one, so copy those of the lower one. */
function keepFolders(root: string, below: string): void {
  const folders = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isDirectory());
  for (const path of ["", ...folders.map((entry) => relative(root, join(entry.parentPath, entry.name)))]) {
    const before = lstatSync(join(below, path), { throwIfNoEntry: false });
    if (!before?.isDirectory()) continue;
    lchownSync(join(root, path), before.uid, before.gid);
    chmodSync(join(root, path), before.mode & 0o7777);
  }
}

/** Installs by the lock file without running any package scripts. */
async function installNpm(
  definition: TemplateDefinition,
  { folder, target }: NonNullable<TemplateDefinition["npm"]>,
  { root, cacheFolder }: { root: string; cacheFolder: string },
  progress: (line: string) => void,
): Promise<void> {
  const place = join(root, target);
  await mkdir(place, { recursive: true });
  for (const name of ["package.json", "package-lock.json"]) {
    await copyFile(join(folderOf(definition), folder, name), join(place, name));
  }
  // Version managers install npm outside the folders of the system.
  const env = { ...MINIMAL_ENV, PATH: `${MINIMAL_ENV.PATH}:${process.env.PATH ?? ""}` };
  const options = { timeoutMs: NPM_MS, cwd: place, env, onOutput: lines(progress) };
  const install = () => run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev"], options);
  await fetching(install, progress).catch((cause) => {
    throw fetchFault(cause, npmPlace(cacheFolder));
  });
  await rm(join(place, "node_modules/.cache"), { recursive: true, force: true });
}

async function addPrograms({ programs }: TemplateDefinition, root: string): Promise<void> {
  const entries = Object.entries(programs);
  if (entries.length > 0) await mkdir(dirname(join(root, BUN_IN_TEMPLATE)), { recursive: true });
  for (const [path, source] of entries) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    const target = path.endsWith(FOR_NODE) ? "node" : "bun";
    const argv = [process.execPath, "build", `--target=${target}`, "--minify-syntax", join(PROJECT, source)];
    await run([...argv, `--outfile=${join(root, path)}`], { timeoutMs: BUNDLE_MS, cwd: root });
    chmodSync(join(root, path), 0o755);
  }
}

/** A hard link to the one copy that all templates share, which already has its owner. */
async function addBun(cacheFolder: string, root: string): Promise<void> {
  const common = join(cacheFolder, `bun-${Bun.version}-${Bun.revision.slice(0, HASH_LENGTH)}`);
  if (!existsSync(common)) {
    const unfinished = `${common}.unfinished`;
    await copyFile(process.execPath, unfinished);
    chownSync(unfinished, shiftedId(0), shiftedId(0));
    chmodSync(unfinished, 0o755);
    renameSync(unfinished, common);
  }
  linkSync(common, join(root, BUN_IN_TEMPLATE));
}

function giveHomeToUser(root: string): void {
  const home = join(root, HOME);
  if (!existsSync(home)) return;
  for (const name of ["", ...(readdirSync(home, { recursive: true }) as string[])]) {
    lchownSync(join(home, name), USER_ID, USER_ID);
  }
  chownSync(home, USER_ID, USER_ID);
}
