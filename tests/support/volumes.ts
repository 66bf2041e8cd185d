/** Volumes through the official client, against the server that a test runs on. */
import { afterAll } from "bun:test";
import { Volume } from "e2b";
import type { TestServer } from "./server.ts";

let made = 0;

export class VolumesOfServer {
  readonly #server: () => TestServer;
  readonly #made: string[] = [];

  /** Volumes of a file are removed after it; its sandboxes must be gone by then. */
  constructor(server: () => TestServer) {
    this.#server = server;
    afterAll(async () => {
      for (const id of this.#made) await Volume.destroy(id, this.#server().options).catch(() => undefined);
    });
  }

  /** Makes a volume with a unique name. */
  async make(prefix = "volume"): Promise<Volume> {
    const volume = await Volume.create(`${prefix}-${process.pid}-${++made}`, this.#server().options);
    this.#made.push(volume.volumeId);
    return volume;
  }

  /** Options for calls about a volume's content, for which the client has a separate address. */
  get at(): { apiUrl: string } {
    return { apiUrl: this.#server().url };
  }
}
