/**
 * A second server, beside the first and on a folder of its own, that keeps no sandbox ready: each of its creates is a
 * boot, however many were asked for before.
 */
import { freePort } from "../../src/base/testing/free-port.ts";
import { BenchServer } from "../bench-server.ts";
import { Context } from "../context.ts";

export class ColdServer implements AsyncDisposable {
  private constructor(
    readonly server: BenchServer,
    readonly context: Context,
  ) {}

  static async start({ task, cacheFolder }: Context): Promise<ColdServer> {
    // This process is in the network already.
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
