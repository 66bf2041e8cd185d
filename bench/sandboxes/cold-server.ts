/** A second server on its own folder, without a ready pool: each create boots, however many came before. */
import { freePort } from "../../src/base/testing/free-port.ts";
import { BenchServer } from "../bench-server.ts";
import { Context } from "../context.ts";

export class ColdServer implements AsyncDisposable {
  private constructor(
    readonly server: BenchServer,
    readonly context: Context,
  ) {}

  static async start({ task, cacheFolder }: Context): Promise<ColdServer> {
    // This process is already in the network.
    const server = new BenchServer([], cacheFolder, { SANDLOT_LISTEN: `127.0.0.1:${freePort()}`, SANDLOT_READY: "0" });
    try {
      await server.start(new AbortController().signal);
    } catch (failure) {
      await server.remove();
      throw failure;
    }
    const context = new Context({ ...task, ...server.address, dataFolder: server.folder });
    context.keptReady = 0;
    return new ColdServer(server, context);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.remove();
  }
}
