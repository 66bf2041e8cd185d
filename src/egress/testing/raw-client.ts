/** A test's TCP connection, byte by byte. */

export class RawClient implements Disposable {
  #received: Buffer[] = [];
  receivedBytes = 0;
  #socket!: Bun.Socket<undefined>;
  #outgoing: Buffer = Buffer.alloc(0);
  /** How it ended: with a word, or cut. Undefined: it has not. */
  ending: "ended" | "cut" | undefined;
  readonly #waiting = new Set<() => void>();

  static async open(port: number, address = "127.0.0.1", from?: string): Promise<RawClient> {
    const client = new RawClient();
    const ended = (how: "ended" | "cut") => {
      client.ending ??= how;
      client.#wake();
    };
    client.#socket = await Bun.connect({
      hostname: address,
      port,
      allowHalfOpen: true,
      ...(from === undefined ? {} : { localAddress: from }),
      socket: {
        data: (_, bytes) => {
          client.#received.push(bytes);
          client.receivedBytes += bytes.length;
          client.#wake();
        },
        drain: () => client.#flush(),
        end: () => ended("ended"),
        close: (_, error) => ended(error === undefined ? "ended" : "cut"),
        error: () => undefined,
      },
    });
    return client;
  }

  get received(): Buffer {
    if (this.#received.length > 1) this.#received = [Buffer.concat(this.#received)];
    return this.#received[0] ?? Buffer.alloc(0);
  }

  get text(): string {
    return this.received.toString("latin1");
  }

  write(bytes: Buffer | string): this {
    this.#outgoing = Buffer.concat([this.#outgoing, Buffer.from(bytes as string)]);
    this.#flush();
    return this;
  }

  #flush(): void {
    const taken = this.#socket.write(this.#outgoing);
    if (taken > 0) this.#outgoing = this.#outgoing.subarray(taken);
  }

  finish(): this {
    this.#socket.shutdown();
    return this;
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** Waits until this is so; fails when the connection is over and it is not. */
  async until(isSo: (client: this) => boolean): Promise<this> {
    while (!isSo(this)) {
      if (this.ending !== undefined)
        throw new Error(`it ${this.ending} after ${JSON.stringify(this.text.slice(0, 500))}`);
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiting.add(resolve);
      await promise;
    }
    return this;
  }

  async has(text: string): Promise<this> {
    return await this.until((client) => client.text.includes(text));
  }

  /** All received data, once the connection is over. */
  async end(): Promise<string> {
    await this.until((client) => client.ending !== undefined);
    return this.text;
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }

  [Symbol.dispose](): void {
    this.#socket.terminate();
  }
}
