/**
 * Fetches the base image of a build in a sandbox of its own, which runs two tools and no tenant's code:
 *
 *   login → manifest → cached blobs → missing blobs → unpack → image on this host
 *
 * Each build queries the registry with its own credentials, even for an image that exists here: the response proves
 * their access. An image's name derives from its source and the digest of its manifest, so an unchanged image is not
 * unpacked again.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { KeyedQueue } from "../../base/serial-queue.ts";
import { sha256 } from "../../base/sha256.ts";
import { Fault } from "../../contract/fault.ts";
import { fullImageName, type ImageName, parseImageName } from "../../contract/image-name.ts";
import type { RegistryCredentials } from "../../contract/internal/host.ts";
import type { GuestCommands } from "../../sandbox/guest-link/guest-commands.ts";
import { type AllowedRegistry, type RegistryRoute, routesTo } from "./allowed-registries.ts";
import type { BlobCache } from "./blob-cache.ts";
import { FetchTools, type Source, UNPACKED } from "./fetch-tools.ts";
import { type LocalImage, LocalImages } from "./local-images.ts";
import { copyLocalImage } from "./local-source.ts";
import { machineAuthorities } from "./machine-authorities.ts";
import { type Blob, readConfig, readManifest } from "./manifest.ts";
import { registryLogin } from "./registry-login.ts";

export interface FetchRequest {
  image: string;
  credentials: RegistryCredentials | null;
}

export interface FetchedImage {
  /** Name on this host. */
  image: string;
  /** Variables of its configuration. Its user and working directory are ignored in favour of the interface's. */
  envVars: Record<string, string>;
  /** Whether it has what the E2B interface promises of every sandbox. */
  isProvisioned: boolean;
}

/** An unlisted sandbox with the tools. */
export interface FetchSandbox extends AsyncDisposable {
  commands: GuestCommands;
  /** Opens these addresses, which are closed to other sandboxes. */
  open(ways: readonly RegistryRoute[]): Promise<void>;
  /** Bytes sent and received. */
  traffic(): number;
  /** Passes its disk for the duration of `use`. */
  withDisk(use: (disk: string) => Promise<void>): Promise<void>;
}

/** Operator settings about the sources of images. */
export interface ImageSources {
  /** Images of built-in templates, by template name. */
  templates: Readonly<Record<string, string>>;
  /** Images on this host, by the names that builds use. */
  local: Readonly<Record<string, LocalImage>>;
  /** Registries in private networks, or without TLS. */
  registries: readonly AllowedRegistry[];
  /** Candidate files with the host's trusted certificates; the first existing one is used. */
  authorities: readonly string[];
  /** Timeouts of a registry: to resolve an image name, and without any progress of a download. */
  questionMaxMs: number;
  stalledMaxMs: number;
}

interface FetcherParts extends ImageSources {
  boot(signal: AbortSignal): Promise<FetchSandbox>;
  images: {
    has(name: string): boolean;
    add(name: string, made: { parent: null; disk: string; folder: string; signal: AbortSignal }): Promise<void>;
  };
  /** Holds notes about fetched images. */
  folder: string;
  cache: BlobCache | undefined;
}

type Say = (message: string) => void;

/** The build that needs an image. */
export interface FetchFor {
  signal: AbortSignal;
  say: Say;
  /** Keeps this image from collection while the build needs it, even before the image exists. */
  hold(image: string): void;
}

/** Maximum manifests from a name to its image. */
const MANIFEST_STEPS_MAX = 3;

export class ImageFetcher {
  readonly #local: LocalImages;
  readonly #turns = new KeyedQueue();

  constructor(private readonly parts: FetcherParts) {
    this.#local = new LocalImages(parts.local);
    mkdirSync(parts.folder, { recursive: true, mode: 0o700 });
  }

  /** Fault 400: malformed name; 422: the image is unavailable, with the reason. */
  async fetch({ image, credentials }: FetchRequest, need: FetchFor): Promise<FetchedImage> {
    const { signal } = need;
    const name = parseImageName(image);
    const local = this.#local.find(name);
    if (local?.kind === "template") return this.#template(local.place, image);
    const login =
      local === undefined && credentials !== null ? await registryLogin(credentials, Date.now()) : undefined;
    await using sandbox = await this.parts.boot(signal);
    const tools = new FetchTools(sandbox.commands, this.parts.questionMaxMs, signal);
    try {
      if (local?.kind === "registry") {
        // The build's credentials are not for this registry.
        return await this.#fromRegistry(parseImageName(local.place), sandbox, tools, need);
      }
      if (local !== undefined) return await this.#fromHere(local, name, sandbox, tools, need);
      if (login !== undefined) await tools.logIn(name.registry, login);
      return await this.#fromRegistry(name, sandbox, tools, need);
    } catch (cause) {
      signal.throwIfAborted();
      if (cause instanceof Fault && cause.status === 422 && !cause.message.startsWith("the image ")) {
        throw new Fault(422, `the image ${fullImageName(name)} could not be fetched: ${cause.message}`, { cause });
      }
      throw cause;
    }
  }

  #template(template: string, image: string): FetchedImage {
    const found = this.parts.templates[template];
    if (found !== undefined) return { image: found, envVars: {}, isProvisioned: true };
    throw new Fault(422, `the image ${image} stands for the template "${template}", which this machine does not have`);
  }

  async #fromRegistry(
    name: ImageName,
    sandbox: FetchSandbox,
    tools: FetchTools,
    need: FetchFor,
  ): Promise<FetchedImage> {
    const { signal, say } = need;
    const { registry, repository } = name;
    const tls = await this.#openWay(registry, sandbox, tools);
    if (tls) await tools.trust(await machineAuthorities(this.parts.authorities));
    const at = (digest: string): Source => ({ reference: `docker://${registry}/${repository}@${digest}`, tls });
    const found = await follow(name, (digest) =>
      tools.ask(digest === null ? { reference: `docker://${fullImageName(name)}`, tls } : at(digest)),
    );
    const key = imageKey("registry", `${registry}/${repository}`, found.digest);
    say(`Image ${fullImageName(name)} is ${found.digest}`);
    await this.once(key, need, async () => {
      const blobs = [found.config, ...found.layers];
      const scope = `${registry}/${repository}`;
      const missing = await this.#putCached(scope, blobs, tools, say);
      try {
        await this.#whileItMoves(sandbox, (stalled) => tools.copy(at(found.digest), stalled));
      } finally {
        // Cache also the blobs that arrived before a failure.
        await this.#keep(scope, missing, tools, signal);
      }
      await tools.logOut();
      await this.#finish(key, name, sandbox, tools, need);
    });
    return this.#known(key);
  }

  async #fromHere(
    local: LocalImage,
    name: ImageName,
    sandbox: FetchSandbox,
    tools: FetchTools,
    need: FetchFor,
  ): Promise<FetchedImage> {
    const { signal, say } = need;
    const image = fullImageName(name);
    say(`Image ${image} is taken from this machine`);
    const { digest, put } = await copyLocalImage(local, image, tools, signal);
    const key = imageKey(local.kind, local.place, digest);
    await this.once(key, need, async () => {
      await put();
      await this.#finish(key, name, sandbox, tools, need);
    });
    return this.#known(key);
  }

  async #finish(
    key: string,
    name: ImageName,
    sandbox: FetchSandbox,
    tools: FetchTools,
    { signal, say }: FetchFor,
  ): Promise<void> {
    const { envVars } = readConfig(await tools.readConfig(), fullImageName(name));
    say("Unpacking the image");
    await tools.unpack();
    // Before the image, which is useless without its note.
    await this.#note(key, envVars);
    await sandbox.withDisk((disk) => this.parts.images.add(key, { parent: null, disk, folder: UNPACKED, signal }));
  }

  /** Removes blobs not used lately and notes about removed images. */
  async collect(): Promise<void> {
    await this.parts.cache?.collect();
    for (const file of await readdir(this.parts.folder)) {
      const name = file.split(".")[0] ?? "";
      // The lock protects an image in the making, whose note comes first.
      await this.#turns.run(name, async () => {
        if (!this.parts.images.has(name)) await rm(join(this.parts.folder, file), { force: true });
      });
    }
  }

  /** Aborts a download that makes no progress. */
  async #whileItMoves(sandbox: FetchSandbox, work: (stalled: AbortSignal) => Promise<void>): Promise<void> {
    const { stalledMaxMs } = this.parts;
    const stalled = new AbortController();
    let before = -1;
    const watch = setInterval(() => {
      const now = sandbox.traffic();
      if (now === before) {
        stalled.abort(new Fault(422, `its registry sent nothing for ${stalledMaxMs / 1000} s`));
      }
      before = now;
    }, stalledMaxMs);
    try {
      await work(stalled.signal);
    } finally {
      clearInterval(watch);
    }
  }

  /** Makes an image unless it exists, one at a time per name. Returns the name. */
  async once(name: string, { hold }: FetchFor, make: (name: string) => Promise<void>): Promise<string> {
    // Hold it before the check: a collection may be about to remove it.
    hold(name);
    await this.#turns.run(name, async () => {
      if (!this.parts.images.has(name)) await make(name);
    });
    return name;
  }

  #known(key: string): FetchedImage {
    const { envVars } = JSON.parse(readFileSync(this.#noteOf(key), "utf8")) as Pick<FetchedImage, "envVars">;
    return { image: key, envVars, isProvisioned: false };
  }

  async #note(key: string, envVars: Record<string, string>): Promise<void> {
    const path = this.#noteOf(key);
    writeFileSync(`${path}.unfinished`, JSON.stringify({ envVars }), { mode: 0o600 });
    await rename(`${path}.unfinished`, path);
  }

  #noteOf(key: string): string {
    return join(this.parts.folder, `${key}.json`);
  }

  /** Returns whether the registry uses TLS. */
  async #openWay(registry: string, sandbox: FetchSandbox, tools: FetchTools): Promise<boolean> {
    const allowed = this.parts.registries.find(({ name }) => name === registry);
    if (allowed === undefined) return true;
    const { host, ways } = await routesTo(allowed);
    await sandbox.open(ways);
    // Pin the addresses, so that the sandbox does not resolve the registry through another DNS server.
    const lines = ["127.0.0.1 localhost", ...ways.map(({ address }) => `${address} ${host}`)];
    await tools.write("/etc/hosts", `${lines.join("\n")}\n`);
    return allowed.tls;
  }

  /** Returns the blobs that must be downloaded. */
  async #putCached(scope: string, blobs: readonly Blob[], tools: FetchTools, say: Say): Promise<Blob[]> {
    const missing: Blob[] = [];
    for (const blob of new Map(blobs.map((each) => [each.digest, each])).values()) {
      const cached = await this.parts.cache?.find(scope, blob);
      if (cached === undefined) missing.push(blob);
      else await tools.putBlob(blob.digest, cached);
    }
    const bytes = missing.reduce((sum, blob) => sum + blob.bytes, 0);
    say(`Fetching ${missing.length} of ${blobs.length} blobs, ${Math.ceil(bytes / 1024 ** 2)} MiB`);
    return missing;
  }

  async #keep(scope: string, blobs: readonly Blob[], tools: FetchTools, signal: AbortSignal): Promise<void> {
    const { cache } = this.parts;
    if (cache === undefined || signal.aborted) return;
    for (const blob of blobs) {
      const isThere = await tools.hasBlob(blob.digest).catch(() => false);
      if (isThere) await cache.keep(scope, blob, await tools.readBlob(blob.digest));
    }
    await cache.collect();
  }
}

/** Follows a name to the image for this platform, through an index if there is one. */
async function follow(
  name: ImageName,
  ask: (digest: string | null) => Promise<string>,
): Promise<{ digest: string; config: Blob; layers: readonly Blob[] }> {
  const image = fullImageName(name);
  let digest = name.digest;
  for (let step = 0; step < MANIFEST_STEPS_MAX; step++) {
    const text = await ask(digest);
    const actual = `sha256:${sha256(text)}`;
    if (digest !== null && digest !== actual) {
      throw new Fault(422, `the image ${image} cannot be used: its registry sent ${actual} for ${digest}`);
    }
    const found = readManifest(text, image);
    if (found.kind === "image") return { digest: actual, config: found.config, layers: found.layers };
    digest = found.digest;
  }
  throw new Fault(422, `the image ${image} cannot be used: it is a list of lists of lists`);
}

/** Image names contain no dots or slashes. */
function imageKey(kind: string, place: string, digest: string): string {
  const hash = sha256(JSON.stringify([kind, place, digest]));
  return `f${hash.slice(0, 40)}`;
}
