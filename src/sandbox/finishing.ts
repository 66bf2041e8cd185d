/**
 * The last steps of a checkpoint: digests of the image, the manifest, and making all of it durable. Each step starts as
 * soon as its input exists, while other steps still run.
 */
import type { SealedImage } from "./checkpoint/image-files.ts";

interface Steps {
  /** Undefined: there is no image. */
  image(): Promise<SealedImage | undefined>;
  /** Called once the disk is cloned. Resolves when everything is durable. */
  whole(image: SealedImage | undefined): Promise<void>;
}

export class Finishing implements AsyncDisposable {
  readonly #steps: Steps;
  #image: Promise<SealedImage | undefined> | undefined;
  #whole: Promise<void> | undefined;

  constructor(steps: Steps) {
    this.#steps = steps;
  }

  /** Called when the image is written, and again if the runtime wrote it a second time. */
  async beginImage(): Promise<void> {
    await this[Symbol.asyncDispose]();
    this.#whole = undefined;
    this.#image = begun(this.#steps.image());
  }

  /** Called when the disk is cloned, too. */
  beginWhole(): void {
    this.#whole = begun(this.#finish());
  }

  /** Starts the steps that have not started, and waits for all. */
  async done(): Promise<void> {
    if (this.#whole === undefined) this.beginWhole();
    await this.#whole;
  }

  /** Waits until no step is running, whether it failed or not. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled([this.#image?.then((image) => image?.durable), this.#whole]);
  }

  async #finish(): Promise<void> {
    this.#image ??= begun(this.#steps.image());
    await this.#steps.whole(await this.#image);
  }
}

/** Prevents an unhandled rejection; the caller that awaits the promise still sees the failure. */
function begun<Result>(work: Promise<Result>): Promise<Result> {
  work.catch(() => undefined);
  return work;
}
