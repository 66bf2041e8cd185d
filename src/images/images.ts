/**
 * Root filesystems by name. An image is a stack of read-only folders that all its sandboxes share. Built-in ones are
 * a folder of the cache, or one on top of another; one that a build has made is what that build wrote, on top of the
 * image it began with:
 *
 *   NAME/image.json   what it is, and which image is below
 *   NAME/layer/       the files, with the marks of what they hide
 *
 * It is written under another name, made durable, and renamed into place: one that has its name is whole, and never
 * changes. A disk belongs to the very folders that it was made over.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Clock, systemClock } from "../base/clock.ts";
import { Leases } from "../base/leases.ts";
import { described, stderrLog } from "../base/log.ts";
import { Fault } from "../contract/fault.ts";
import { run } from "../system/command.ts";
import type { IdForm } from "../system/id-range.ts";
import type { Lower } from "../system/mount/lower.ts";
import { mountPoints } from "../system/mount/mount-namespace.ts";
import { cachedStack, stackedOn } from "./cached-images.ts";
import type { Disks } from "./disk/disks.ts";
import { bytesOf, copyUpper } from "./image-copy.ts";
import { imageBelow, imageFolder } from "./image-folder.ts";
import { IMAGE_REMOVE_MS, IMAGE_SYNC_MS } from "./limits.ts";
import type { MarkedFolders } from "./marked-folders.ts";
import { demandMountPoints } from "./mount-points.ts";

/** How many finished builds an image can be stacked from, each on the one before, besides the built-in one below. */
export const IMAGE_LEVELS_MAX = 20;
/** An image that was just made or used stays for so long, until whoever keeps the books has written that down. */
export const IMAGE_FRESH_MS = 60_000;

const IMAGE_FORMAT = 1;
/** Names of images have no dot. */
const UNFINISHED = ".unfinished";
const LEAVING = ".leaving";

interface ImageFacts {
  format: typeof IMAGE_FORMAT;
  /** The image below. */
  parent: string | null;
  ids: IdForm;
  createdAt: string;
  bytes: number;
}

interface NewImage {
  /** The image that the build began with; null: with none. */
  parent: string | null;
  /** The file of its finished disk, to which nobody writes any more. What it wrote is the folder `upper` there. */
  disk: string;
  /** Only what is in this folder of it becomes the image; all of it by default. */
  folder?: string;
  signal?: AbortSignal;
}

export class Images {
  readonly #folder: string;
  readonly #cacheFolder: string;
  readonly #disks: Disks;
  readonly #clock: Clock;
  readonly #facts = new Map<string, ImageFacts>();
  readonly #leases = new Leases();
  /** Since when those are there that nobody but its build has named yet. */
  readonly #freshSince = new Map<string, number>();

  readonly #cached: MarkedFolders | undefined;
  /** Those of which all that is in the cache folder has this server's mark. */
  readonly #marked = new Set<string>();

  private constructor(cacheFolder: string, disks: Disks, clock: Clock, cached: MarkedFolders | undefined) {
    this.#cacheFolder = cacheFolder;
    this.#disks = disks;
    this.#clock = clock;
    this.#cached = cached;
    this.#folder = disks.imagesFolder;
    // Files in here have the owners and modes that a tenant gave them, set-id bits among them: for root alone.
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

  has(name: string): boolean {
    return this.#isBuiltIn(name) || this.#factsOf(name) !== undefined;
  }

  /** What a sandbox of this image lies on, the topmost first. Fault 404 when it is not on this machine. */
  lowersOf(name: string): Lower[] {
    const lowers: Lower[] = [];
    for (let at: string | null = name; at !== null; ) {
      if (this.#isBuiltIn(at)) {
        lowers.push({ folder: imageFolder(this.#cacheFolder, at), ids: "shifted" });
        at = imageBelow(this.#cacheFolder, at);
        continue;
      }
      const facts = this.#factsOf(at);
      if (facts === undefined || lowers.length > IMAGE_LEVELS_MAX) throw missing(name, at);
      lowers.push({ folder: join(this.#folder, at, "layer"), ids: facts.ids });
      at = facts.parent;
    }
    return lowers;
  }

  /** Fault 404 when it is not on this machine, or something that it lies on is not. */
  demand(name: string): void {
    this.lowersOf(name);
  }

  /** Fault 422 when something else than a folder is where a sandbox has its own; `guest`: where the guest is. */
  demandMountPoints(name: string, guest: string): void {
    demandMountPoints(
      this.lowersOf(name).map(({ folder }) => folder),
      guest,
    );
  }

  /** Fault 400 when nothing more can be stacked on this image; to be asked before a build begins. */
  demandStackable(parent: string): void {
    const levels = this.lowersOf(parent).length;
    if (levels <= IMAGE_LEVELS_MAX) return;
    throw new Fault(
      400,
      `a template can be stacked on another at most ${IMAGE_LEVELS_MAX} times, and the one it is to be built from has ` +
        `${levels - 1} below it. FIX: build from one of those below, with the steps of the others repeated`,
    );
  }

  /** Makes an image of what a build wrote. When it throws there is none, and nothing is left of it. */
  async add(name: string, { parent, disk, folder, signal }: NewImage): Promise<void> {
    using _image = this.hold(name);
    using _parent = parent === null ? undefined : this.hold(parent);
    if (parent !== null) this.demandStackable(parent);
    if (this.has(name)) throw new Fault(409, `there is an image "${name}" already`);
    const unfinished = join(this.#folder, named(name) + UNFINISHED);
    // A second one of this name, at the same time, fails here.
    mkdirSync(unfinished, { mode: 0o700 });
    try {
      const layer = join(unfinished, "layer");
      const lowers = parent === null ? [] : this.lowersOf(parent);
      const ids = await copyUpper(this.#disks, { disk, folder, lowers, target: layer, scratch: unfinished, signal });
      const facts: ImageFacts = {
        format: IMAGE_FORMAT,
        parent,
        ids,
        createdAt: new Date(this.#clock.now()).toISOString(),
        bytes: await bytesOf(layer),
      };
      writeFileSync(join(unfinished, "image.json"), JSON.stringify(facts), { mode: 0o600 });
      // There may be a hundred thousand files: one call for the whole filesystem is less than one for each.
      await run(["sync", "--file-system", unfinished], { timeoutMs: IMAGE_SYNC_MS });
      signal?.throwIfAborted();
      renameSync(unfinished, join(this.#folder, name));
      await run(["sync", this.#folder]);
    } catch (cause) {
      // It may have its name already.
      await this.remove(name);
      await this.#removeFolder(unfinished);
      throw cause;
    }
    this.#freshSince.set(name, this.#clock.now());
  }

  /** Idempotent. Nobody may start from it any more, nor from one that is stacked on it. */
  async remove(name: string): Promise<void> {
    this.#facts.delete(name);
    this.#freshSince.delete(name);
    const path = join(this.#folder, named(name));
    if (!existsSync(path)) return;
    // What is half removed must not be taken for an image, and not be in the way of the next one of this name.
    const leaving = `${path}.${crypto.randomUUID()}${LEAVING}`;
    renameSync(path, leaving);
    await this.#removeFolder(leaving);
  }

  /** The images of builds, each with the room that it takes besides the ones below. */
  list(): { name: string; bytes: number }[] {
    return this.names().flatMap((name) => {
      const facts = this.#factsOf(name);
      return facts === undefined ? [] : [{ name, bytes: facts.bytes }];
    });
  }

  /**
   * Until it is let go, this image is not collected; it need not be there yet. What it lies on in the cache folder gets
   * this server's mark, so that no other server removes it.
   */
  hold(name: string): Disposable {
    if (this.#cached !== undefined && !this.#marked.has(name)) {
      const stack = this.cachedUnder([name]);
      if (stack.length > 0 && this.#cached.mark(stack).length === 0) this.#marked.add(name);
    }
    return this.#leases.hold(name);
  }

  /**
   * Removes the images of builds that are needed by nobody: not named in `keep`, not in use as `inUse` finds, not held,
   * and below none of those. One that was just made stays until it has been named once, or a while has passed: whoever
   * keeps the books may not have written it down yet.
   *
   * Then, once an hour, removes images of the cache folder that no server needs; `elsewhere` names what is needed for
   * other reasons than these.
   */
  async collect(
    keep: readonly string[],
    inUse: () => Promise<readonly string[]>,
    elsewhere: () => readonly string[] = () => [],
  ): Promise<void> {
    using held = this.#leases.watch();
    const freshFrom = this.#clock.now() - IMAGE_FRESH_MS;
    for (const name of keep) this.#freshSince.delete(name);
    const used = await inUse();
    // From here to the end of the choice nobody else has a turn, so what was held until now is all that is.
    const fresh = [...this.#freshSince].flatMap(([name, since]) => (since >= freshFrom ? [name] : []));
    const needed = this.#withParents([...keep, ...used, ...held.seen, ...fresh]);
    const removals = this.names()
      .filter((name) => !needed.has(name))
      .map((name) => this.remove(name));
    await Promise.all(removals);
    await this.#cached?.collectNowAndThen({
      own: async () => this.cachedUnder([...keep, ...used, ...held.seen, ...this.names()]),
      others: () => [...stackedOn(this.#cacheFolder), ...this.cachedUnder(elsewhere())],
      letGo: async () => this.#marked.clear(),
    });
  }

  /** What these lie on in the cache folder, themselves included. */
  cachedUnder(names: readonly string[]): string[] {
    return [...this.#withParents(names)].flatMap((name) => cachedStack(this.#cacheFolder, name));
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
    return existsSync(imageFolder(this.#cacheFolder, named(name)));
  }

  #factsOf(name: string): ImageFacts | undefined {
    const known = this.#facts.get(name);
    if (known !== undefined) return known;
    const path = join(this.#folder, named(name), "image.json");
    if (!existsSync(path)) return undefined;
    const facts = JSON.parse(readFileSync(path, "utf8")) as ImageFacts;
    if (facts.format !== IMAGE_FORMAT) {
      throw new Fault(422, `image "${name}" has format ${facts.format}; this program reads ${IMAGE_FORMAT}`);
    }
    this.#facts.set(name, facts);
    return facts;
  }

  /** Of images of builds. */
  names(): string[] {
    return readdirSync(this.#folder).filter((name) => !name.includes("."));
  }

  /** Of a server that was killed meanwhile. */
  async #removeLeftovers(): Promise<void> {
    for (const name of readdirSync(this.#folder)) {
      if (!name.endsWith(UNFINISHED) && !name.endsWith(LEAVING)) continue;
      await this.#removeFolder(join(this.#folder, name)).catch((error) =>
        stderrLog.write({
          level: "error",
          event: "what is left of an image could not be removed",
          error: described(error),
        }),
      );
    }
  }

  async #removeFolder(path: string): Promise<void> {
    const below = mountPoints().filter((point) => point.startsWith(`${path}/`));
    for (const target of below.reverse()) await this.#disks.mounts.do({ kind: "detach", target });
    // The tool, which goes down into trees of any depth, and never through a link.
    await run(["rm", "--recursive", "--force", "--one-file-system", "--", path], { timeoutMs: IMAGE_REMOVE_MS });
  }
}

function missing(name: string, part: string): Fault {
  const below = part === name ? "" : `: "${part}" below it is missing`;
  return new Fault(404, `the image "${name}" is not on this machine${below}`);
}

function named(name: string): string {
  if (!/^[a-z0-9][a-z0-9-]{0,127}$/.test(name)) throw new Fault(500, `${JSON.stringify(name)} cannot name an image`);
  return name;
}
