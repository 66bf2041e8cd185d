/**
 * Root filesystems by name. An image is a stack of read-only folders that all its sandboxes share. Built-in ones are
 * one or more folders of the cache. An image made by a build has the files that the build wrote, on top of the image it
 * started from:
 *
 *   NAME/image.json   facts, with the name of the image below
 *   NAME/layer/       the files, with whiteouts for what they hide
 *
 * An image is written under another name, made durable, and renamed into place: under its own name it is complete and
 * never changes. A disk works only over the very folders that it was made over.
 *
 * The module src/images stores images and disks. It never runs build steps or sandboxes.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Clock, systemClock } from "../base/clock.ts";
import { Leases } from "../base/leases.ts";
import { described, stderrLog } from "../base/log.ts";
import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import { run } from "../system/command.ts";
import type { IdForm } from "../system/id-range.ts";
import type { Lower } from "../system/mount/mount-job.ts";
import { mountPoints } from "../system/mount/mount-namespace.ts";
import { cachedStack, IMAGE_REMOVE_MS, stackedOn } from "./cached-images.ts";
import type { Disks } from "./disk/disks.ts";
import { bytesOf, copyUpper } from "./image-copy.ts";
import { imageBelow, imageFolder } from "./image-folder.ts";
import type { MarkedFolders } from "./marked-folders.ts";
import { requireMountPoints } from "./mount-points.ts";

/** How many finished builds an image can be stacked from, besides the built-in one below. */
export const IMAGE_LEVELS_MAX = 20;
/** How long a new or just used image stays without being named, until control has recorded it. */
export const IMAGE_FRESH_MS = 60_000;

const IMAGE_SYNC_MS = scaled(300_000);

const IMAGE_FORMAT = 1;
/** Image names have no dot, so these suffixes cannot clash. */
const UNFINISHED = ".unfinished";
const LEAVING = ".leaving";

interface ImageFacts {
  format: typeof IMAGE_FORMAT;
  parent: string | null;
  ids: IdForm;
  createdAt: string;
  bytes: number;
}

/** An image of a stack, with the folder that has all of it. */
interface StackedImage {
  name: string;
  /** In the cache folder, or made by a build. */
  kind: "cached" | "built";
  below: string | null;
  folder: string;
}

interface NewImage {
  /** The image that the build started from; null: none. */
  parent: string | null;
  /** The file of its finished disk, which nothing writes to any more. The build's files are in its folder `upper`. */
  disk: string;
  /** Only the content of this folder becomes the image; everything by default. */
  folder?: string;
  signal?: AbortSignal;
}

export class Images {
  readonly #folder: string;
  readonly #facts = new Map<string, ImageFacts>();
  readonly #leases = new Leases();
  /** When new images were made that only their build has named so far. */
  readonly #freshSince = new Map<string, number>();

  /** Images whose whole stack in the cache folder has this server's mark. */
  readonly #marked = new Set<string>();

  private constructor(
    private readonly cacheFolder: string,
    private readonly disks: Disks,
    private readonly clock: Clock,
    private readonly cached: MarkedFolders | undefined,
  ) {
    this.#folder = disks.imagesFolder;
    // Files here have owners and modes that a tenant chose, including set-id bits, so only root may enter.
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
  }

  /** Without `cached`, images of the cache folder are neither marked nor removed. */
  static async open(
    cacheFolder: string,
    disks: Disks,
    clock: Clock = systemClock,
    cached?: MarkedFolders,
  ): Promise<Images> {
    const images = new Images(cacheFolder, disks, clock, cached);
    await images.#removeLeftovers();
    return images;
  }

  /** Images for a process beside the server, which only reads. */
  static reading(cacheFolder: string, disks: Disks): Images {
    return new Images(cacheFolder, disks, systemClock, undefined);
  }

  has(name: string): boolean {
    return this.#isBuiltIn(name) || this.#factsOf(name) !== undefined;
  }

  /** The layers of a sandbox with this image, topmost first. Throws Fault 404 when the image is not on this machine. */
  lowersOf(name: string): Lower[] {
    const lowers: Lower[] = [];
    for (let at: string | null = name; at !== null; ) {
      if (this.#isBuiltIn(at)) {
        lowers.push({ folder: imageFolder(this.cacheFolder, at), ids: "shifted" });
        at = imageBelow(this.cacheFolder, at);
        continue;
      }
      const facts = this.#factsOf(at);
      if (facts === undefined || lowers.length > IMAGE_LEVELS_MAX) throw missing(name, at);
      lowers.push({ folder: join(this.#folder, at, "layer"), ids: facts.ids });
      at = facts.parent;
    }
    return lowers;
  }

  /** The image and those below it, topmost first. Throws Fault 404 when one is not on this machine. */
  stackOf(name: string): StackedImage[] {
    const stack: StackedImage[] = [];
    this.require(name);
    for (let at: string | null = name; at !== null; at = stack.at(-1)?.below ?? null) {
      if (this.#isBuiltIn(at)) {
        const below = imageBelow(this.cacheFolder, at);
        stack.push({ name: at, kind: "cached", below, folder: imageFolder(this.cacheFolder, at) });
      } else {
        const below = this.#factsOf(at)?.parent ?? null;
        stack.push({ name: at, kind: "built", below, folder: join(this.#folder, at) });
      }
    }
    return stack;
  }

  /** Throws Fault 404 when the image, or one below it, is not on this machine. */
  require(name: string): void {
    this.lowersOf(name);
  }

  /** Throws Fault 422 when a mount point of sandboxes or of the guest is not a folder in the image. */
  requireMountPoints(name: string, guest: string): void {
    requireMountPoints(
      this.lowersOf(name).map(({ folder }) => folder),
      guest,
    );
  }

  /** Throws Fault 400 when nothing more can be stacked on this image; to be called before a build starts. */
  requireStackable(parent: string): void {
    const levels = this.lowersOf(parent).length;
    if (levels <= IMAGE_LEVELS_MAX) return;
    throw new Fault(
      400,
      `a template can be stacked on another at most ${IMAGE_LEVELS_MAX} times, and the one it is to be built from has ` +
        `${levels - 1} below it. FIX: build from one of those below, with the steps of the others repeated`,
    );
  }

  /** Makes an image of what a build wrote. When it throws, there is no image and nothing is left of it. */
  async add(name: string, { parent, disk, folder, signal }: NewImage): Promise<void> {
    using _image = this.hold(name);
    using _parent = parent === null ? undefined : this.hold(parent);
    if (parent !== null) this.requireStackable(parent);
    if (this.has(name)) throw new Fault(409, `there is an image "${name}" already`);
    await this.#make(
      name,
      async (unfinished) => {
        const layer = join(unfinished, "layer");
        const lowers = parent === null ? [] : this.lowersOf(parent);
        const ids = await copyUpper(this.disks, { disk, folder, lowers, target: layer, scratch: unfinished, signal });
        const facts: ImageFacts = {
          format: IMAGE_FORMAT,
          parent,
          ids,
          createdAt: new Date(this.clock.now()).toISOString(),
          bytes: await bytesOf(layer),
        };
        writeFileSync(join(unfinished, "image.json"), JSON.stringify(facts), { mode: 0o600 });
      },
      signal,
    );
  }

  /** Makes an image of the folder of one that another machine has. When it throws, nothing is left. */
  async install(name: string, fill: (folder: string) => Promise<void>): Promise<void> {
    using _image = this.hold(name);
    await this.#make(name, fill);
  }

  async #make(name: string, fill: (unfinished: string) => Promise<void>, signal?: AbortSignal): Promise<void> {
    const unfinished = join(this.#folder, checkedImageName(name) + UNFINISHED);
    // A concurrent call with this name fails here.
    mkdirSync(unfinished, { mode: 0o700 });
    try {
      await fill(unfinished);
      // One sync of the filesystem is cheaper than one for each of perhaps a hundred thousand files.
      await run(["sync", "--file-system", unfinished], { timeoutMs: IMAGE_SYNC_MS });
      signal?.throwIfAborted();
      renameSync(unfinished, join(this.#folder, name));
      await run(["sync", this.#folder], { timeoutMs: IMAGE_SYNC_MS });
    } catch (cause) {
      // The rename may have succeeded already.
      await this.remove(name);
      await this.#removeFolder(unfinished);
      throw cause;
    }
    this.#freshSince.set(name, this.clock.now());
  }

  /** Idempotent. No sandbox may start from it, or from an image stacked on it, any more. */
  async remove(name: string): Promise<void> {
    this.#facts.delete(name);
    this.#freshSince.delete(name);
    const path = join(this.#folder, checkedImageName(name));
    if (!existsSync(path)) return;
    // A partly removed folder must not look like an image, and must not block the next image of this name.
    const leaving = `${path}.${crypto.randomUUID()}${LEAVING}`;
    renameSync(path, leaving);
    await this.#removeFolder(leaving);
  }

  /** The images of builds, each with its own disk space, without the images below. */
  list(): { name: string; bytes: number }[] {
    return this.names().flatMap((name) => {
      const facts = this.#factsOf(name);
      return facts === undefined ? [] : [{ name, bytes: facts.bytes }];
    });
  }

  /** Protects this image, which need not exist yet, from `collect`, and its cached layers from other servers. */
  hold(name: string): Disposable {
    if (this.cached !== undefined && !this.#marked.has(name)) {
      const stack = this.cachedUnder([name]);
      if (stack.length > 0 && this.cached.mark(stack).length === 0) this.#marked.add(name);
    }
    return this.#leases.hold(name);
  }

  /**
   * Removes images of builds that are not needed: not named in `keep`, not returned by `inUse`, not held, and below
   * none of those. A new image stays until it has been named once, or for a while, because control may not have
   * recorded it yet.
   *
   * Then, once an hour, removes images of the cache folder that no server needs; `elsewhere` names those needed for
   * other reasons.
   */
  async collect(
    keep: readonly string[],
    inUse: () => Promise<readonly string[]>,
    elsewhere: () => readonly string[] = () => [],
  ): Promise<void> {
    using held = this.#leases.watch();
    const freshFrom = this.clock.now() - IMAGE_FRESH_MS;
    for (const name of keep) this.#freshSince.delete(name);
    const used = await inUse();
    // No other code runs from here until the choice is made, so the list of held images is complete.
    const fresh = [...this.#freshSince].flatMap(([name, since]) => (since >= freshFrom ? [name] : []));
    const needed = this.#withParents([...keep, ...used, ...held.seen, ...fresh]);
    const removals = this.names()
      .filter((name) => !needed.has(name))
      .map((name) => this.remove(name));
    await Promise.all(removals);
    await this.cached?.collectNowAndThen({
      own: async () => this.cachedUnder([...keep, ...used, ...held.seen, ...this.names()]),
      others: () => [...stackedOn(this.cacheFolder), ...this.cachedUnder(elsewhere())],
      release: async () => this.#marked.clear(),
    });
  }

  /** The layers of these images in the cache folder, including themselves. */
  cachedUnder(names: readonly string[]): string[] {
    return [...this.#withParents(names)].flatMap((name) => cachedStack(this.cacheFolder, name));
  }

  #withParents(names: readonly string[]): Set<string> {
    const needed = new Set<string>();
    for (const name of names) {
      for (let at: string | null | undefined = name; at && !needed.has(at); at = this.#factsOf(at)?.parent)
        needed.add(at);
    }
    return needed;
  }

  #isBuiltIn(name: string): boolean {
    return existsSync(imageFolder(this.cacheFolder, checkedImageName(name)));
  }

  #factsOf(name: string): ImageFacts | undefined {
    const known = this.#facts.get(name);
    if (known !== undefined) return known;
    const path = join(this.#folder, checkedImageName(name), "image.json");
    if (!existsSync(path)) return undefined;
    const facts = JSON.parse(readFileSync(path, "utf8")) as ImageFacts;
    if (facts.format !== IMAGE_FORMAT) {
      throw new Fault(422, `image "${name}" has format ${facts.format}; this program reads ${IMAGE_FORMAT}`);
    }
    this.#facts.set(name, facts);
    return facts;
  }

  names(): string[] {
    return readdirSync(this.#folder).filter((name) => !name.includes("."));
  }

  async #removeLeftovers(): Promise<void> {
    for (const name of readdirSync(this.#folder)) {
      if (!name.endsWith(UNFINISHED) && !name.endsWith(LEAVING)) continue;
      await this.#removeFolder(join(this.#folder, name)).catch((error) =>
        stderrLog.write({
          level: "error",
          event: "leftovers of an image could not be removed",
          error: described(error),
        }),
      );
    }
  }

  async #removeFolder(path: string): Promise<void> {
    const below = mountPoints().filter((point) => point.startsWith(`${path}/`));
    for (const target of below.reverse()) await this.disks.mounts.do({ kind: "detach", target });
    // The rm tool handles trees of any depth and never follows a link.
    await run(["rm", "--recursive", "--force", "--one-file-system", "--", path], { timeoutMs: IMAGE_REMOVE_MS });
  }
}

function missing(name: string, part: string): Fault {
  const below = part === name ? "" : `: "${part}" below it is missing`;
  return new Fault(404, `the image "${name}" is not on this machine${below}`);
}

function checkedImageName(name: string): string {
  if (!/^[a-z0-9][a-z0-9-]{0,127}$/.test(name)) throw new Fault(500, `${JSON.stringify(name)} cannot name an image`);
  return name;
}
