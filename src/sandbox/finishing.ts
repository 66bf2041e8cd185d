/**
 * The last steps of a checkpoint: its image gets digests, it is described, and all of it is made durable. Each can
 * begin as soon as what it needs is there, while others still work on the rest.
 */
import type { SealedImage } from "./checkpoint/image-files.ts";

interface Steps {
  /** Undefined: there is no image. */
  image(): Promise<SealedImage | undefined>;
  /** The disk is there. Done when all of it is durable. */
  whole(image: SealedImage | undefined): Promise<void>;
}

export class Finishing implements AsyncDisposable {
  readonly #steps: Steps;
  #image: Promise<SealedImage | undefined> | undefined;
  #whole: Promise<void> | undefined;

  constructor(steps: Steps) {
    this.#steps = steps;
  }

  /** The image is written. Once more if it was written once more. */
  async beginImage(): Promise<void> {
    await this[Symbol.asyncDispose]();
    this.#whole = undefined;
    this.#image = begun(this.#steps.image());
  }

  /** The disk is there, too. */
  beginWhole(): void {
    this.#whole = begun(this.#finish());
  }

  /** Begins what has not begun. */
  async done(): Promise<void> {
    if (this.#whole === undefined) this.beginWhole();
    await this.#whole;
  }

  /** Nothing is at work any more, whatever came of it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled([this.#image?.then((image) => image?.durable), this.#whole]);
  }

  async #finish(): Promise<void> {
    this.#image ??= begun(this.#steps.image());
    await this.#steps.whole(await this.#image);
  }
}

/** Whoever waits for it hears of a failure. */
function begun<Result>(work: Promise<Result>): Promise<Result> {
  work.catch(() => undefined);
  return work;
}
