/**
 * The images that builds start from: fetched, then provisioned with what the E2B interface promises of every sandbox.
 * Both happen once per image and run only programs of Sandlot, never code of the image.
 */
import { sha256 } from "../base/sha256.ts";
import { scaled } from "../base/time-factor.ts";
import type { Blobs } from "../blobs/blobs.ts";
import { NAMESERVER_ADDRESS, SANDBOX_ADDRESS } from "../contract/address-plan.ts";
import { HOSTNAME } from "../contract/hostname.ts";
import type { Egress, SandboxKind } from "../contract/internal/host.ts";
import { GUEST_MOUNT } from "../contract/runtime/guest-programs.ts";
import type { Images } from "../images/images.ts";
import type { Checkpoints } from "../sandbox/checkpoint/checkpoints.ts";
import type { Checkpointing } from "../sandbox/checkpointing.ts";
import type { Network } from "../sandbox/network/network.ts";
import { BuildSandbox, type SandboxSource } from "./build-sandbox.ts";
import { BlobCache } from "./registry/blob-cache.ts";
import { FETCH_IMAGE } from "./registry/fetch-tools.ts";
import {
  type FetchedImage,
  type FetchFor,
  type FetchRequest,
  type FetchSandbox,
  ImageFetcher,
  type ImageSources,
} from "./registry/image-fetcher.ts";
import { MACHINE_BUNDLES } from "./registry/machine-authorities.ts";

/** A download without progress fails after this time. */
const FETCH_STALLED_MS = scaled(60_000);
/** Size of the sandbox that fetches an image. Its disk holds the downloaded layers and the unpacked files. */
const FETCH_CPU_COUNT = 2;
const FETCH_MEMORY_MB = 1024;
const FETCH_DISK_MB = 24 * 1024;
const PROVISION_DISK_MB = 1024;
/** A registry that does not resolve an image name within this time counts as unavailable. */
const FETCH_QUESTION_MS = scaled(60_000);

const SOURCES_DEFAULT: ImageSources = {
  templates: {},
  local: {},
  registries: [],
  authorities: MACHINE_BUNDLES,
  questionMaxMs: FETCH_QUESTION_MS,
  stalledMaxMs: FETCH_STALLED_MS,
};

export interface FetchOptions extends ImageSources {
  blobs: Blobs;
  diskSizeMB: number;
}

interface BaseImagesParts {
  sandboxes: SandboxSource;
  network: Network;
  checkpoints: Checkpoints;
  checkpointing: Checkpointing;
  images: Images;
  /** Holds notes about fetched images. */
  notesFolder: string;
  /** Holds the guest's programs. */
  guestFolder: string;
  options: Partial<FetchOptions>;
}

/** The default user of every sandbox, whatever its image says. */
const USER = "user";

export class BaseImages {
  readonly #fetcher: ImageFetcher;

  constructor(private readonly parts: BaseImagesParts) {
    const { blobs } = parts.options;
    this.#fetcher = new ImageFetcher({
      ...SOURCES_DEFAULT,
      ...parts.options,
      boot: (signal) => this.#bootFetching(signal),
      images: parts.images,
      folder: parts.notesFolder,
      cache: blobs === undefined ? undefined : new BlobCache(blobs),
    });
  }

  /** Fault 400: malformed image name; 422: unavailable. User and folder follow the E2B interface, not the image. */
  async fetch(request: FetchRequest, need: FetchFor): Promise<FetchedImage> {
    const fetched = await this.#fetcher.fetch(request, need);
    if (fetched.isProvisioned) return fetched;
    const provision = (name: string) => this.#provision(fetched, name, need.signal);
    return { ...fetched, image: await this.#fetcher.once(this.#nameOf(fetched), need, provision) };
  }

  /** Removes cached registry data that was not used lately. */
  async collect(): Promise<void> {
    await this.#fetcher.collect();
  }

  /** Includes the guest's version: another guest may provision differently. */
  #nameOf({ image }: FetchedImage): string {
    const { guestFolder } = this.parts;
    return `p${sha256(JSON.stringify([image, guestFolder])).slice(0, 40)}`;
  }

  async #provision({ image }: FetchedImage, name: string, signal: AbortSignal): Promise<void> {
    this.parts.images.requireMountPoints(image, GUEST_MOUNT);
    await using sandbox = await this.#boot({ image, diskSizeMB: PROVISION_DISK_MB }, "closed", signal);
    await sandbox.program("provision", {
      user: USER,
      hostname: HOSTNAME,
      address: SANDBOX_ADDRESS,
      nameserver: NAMESERVER_ADDRESS,
      build: null,
    });
    await this.#withDisk(sandbox, (disk) => this.parts.images.add(name, { parent: image, disk, signal }));
  }

  async #bootFetching(signal: AbortSignal): Promise<FetchSandbox> {
    const sandbox = await this.#boot(
      { image: FETCH_IMAGE, diskSizeMB: this.parts.options.diskSizeMB ?? FETCH_DISK_MB },
      "open",
      signal,
    );
    return {
      commands: sandbox.commands,
      open: (ways) => this.parts.network.grant(sandbox.record.slot, ways),
      traffic: () => this.parts.network.traffic(sandbox.record.slot) ?? 0,
      withDisk: (use) => this.#withDisk(sandbox, use),
      [Symbol.asyncDispose]: () => sandbox[Symbol.asyncDispose](),
    };
  }

  async #boot(
    { image, diskSizeMB }: Pick<SandboxKind, "image" | "diskSizeMB">,
    egress: Egress,
    signal: AbortSignal,
  ): Promise<BuildSandbox> {
    const kind: SandboxKind = {
      templateId: image,
      image,
      cpuCount: FETCH_CPU_COUNT,
      memoryMB: FETCH_MEMORY_MB,
      diskSizeMB,
      defaultUser: "root",
      defaultWorkdir: "/",
    };
    return await BuildSandbox.open(this.parts.sandboxes, { kind, envVars: {}, egress }, signal);
  }

  /** Passes a temporary clone of the sandbox's disk. */
  async #withDisk({ record }: BuildSandbox, use: (disk: string) => Promise<void>): Promise<void> {
    const { checkpoints, checkpointing } = this.parts;
    const name = `disk-${record.id}`;
    await checkpointing.write(record, name, { memory: false, temporary: true }, "keeps running");
    try {
      await use(checkpoints.read(name).folder.disk);
    } finally {
      await checkpoints.remove(name);
    }
  }
}
