/** A second server on its own folder. By default it keeps no sandbox ready, so each create boots. */
import { freePort } from "../../src/base/testing/free-port.ts";
import { BenchServer } from "../bench-server.ts";
import { Context } from "../context.ts";

export interface SecondServerOptions {
  /** Its minimum number of ready sandboxes. */
  ready?: number;
  settings?: Record<string, string>;
}

export class SecondServer implements AsyncDisposable {
  private constructor(
    readonly server: BenchServer,
    readonly context: Context,
  ) {}

  static async start(
    { task, cacheFolder }: Context,
    { ready = 0, settings = {} }: SecondServerOptions = {},
  ): Promise<SecondServer> {
    const own = { SANDLOT_LISTEN: `127.0.0.1:${freePort()}`, SANDLOT_READY: String(ready) };
    // This process is already in the network.
    const server = new BenchServer([], cacheFolder, { ...own, ...settings });
    try {
      await server.start(new AbortController().signal);
    } catch (failure) {
      await server.remove();
      throw failure;
    }
    const context = new Context({ ...task, ...server.address, dataFolder: server.folder });
    context.keptReady = ready;
    return new SecondServer(server, context);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.remove();
  }
}
