/**
 * A part of the guest that is loaded when somebody first needs it: until then a sandbox pays for it neither time at its
 * boot nor memory. All who need it meanwhile wait for the same load.
 */
export class LaterPart<T> {
  readonly #load: () => Promise<T>;
  #loading: Promise<T> | undefined;

  constructor(load: () => Promise<T>) {
    this.#load = load;
  }

  /** Whether anybody has needed it so far. */
  get isNeeded(): boolean {
    return this.#loading !== undefined;
  }

  async take(): Promise<T> {
    this.#loading ??= this.#load();
    const loading = this.#loading;
    try {
      return await loading;
    } catch (thrown) {
      // Who asks next tries again: it may have been for want of memory or of descriptors.
      if (this.#loading === loading) this.#loading = undefined;
      throw thrown;
    }
  }
}
