/** A part of the guest that is loaded on first use, so that a boot pays neither time nor memory for it. */
export class LazyPart<T> {
  #loading: Promise<T> | undefined;

  constructor(private readonly loadPart: () => Promise<T>) {}

  /** Whether the load has been requested. */
  get isRequested(): boolean {
    return this.#loading !== undefined;
  }

  async load(): Promise<T> {
    this.#loading ??= this.loadPart();
    const loading = this.#loading;
    try {
      return await loading;
    } catch (thrown) {
      // The next caller retries: the load may have failed for lack of memory or descriptors.
      if (this.#loading === loading) this.#loading = undefined;
      throw thrown;
    }
  }
}
