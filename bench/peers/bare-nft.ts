/**
 * The floor of a change of network rules: one `nft -f` with the same change in one transaction, in a separate table
 * that no packet passes. The kernel and nft handle all other tables beside it, as for the server.
 */
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { EgressPolicy } from "../../src/contract/internal/host.ts";
import {
  fillChains,
  makeSets,
  removeSets,
  type SlotState,
  verdictMaps,
} from "../../src/sandbox/network/slot-chains.ts";
import { serverNet } from "../../src/sandbox/network/slots.ts";
import { run } from "../../src/system/command.ts";
import type { Context } from "../context.ts";
import { timed } from "../figures/samples.ts";
import { runBare } from "./program.ts";

const TABLE = "bench_floor";
const SLOT = 1;
/** Names in the rules; no relay listens there. */
const RELAY = { uid: 1, ports: { http: 1, tls: 2, proxied: 3 } };

export class BareNft implements AsyncDisposable {
  readonly #file: string;
  readonly #net: number;
  #before: SlotState | undefined;

  private constructor(context: Context) {
    this.#file = join(context.data.runFolder, "bench-floor.nft");
    this.#net = serverNet(context.data);
  }

  static async make(context: Context): Promise<BareNft> {
    await run(["nft", "-f", "-"], { stdin: `table inet ${TABLE} {\n  chain refuse { }\n${verdictMaps()}\n}\n` });
    return new BareNft(context);
  }

  /** Changes from the previous rules to these. The text is written before the clock starts. */
  async changeMs(egress: EgressPolicy): Promise<number> {
    const facts = { table: TABLE, net: this.#net, relay: RELAY };
    const before = this.#before;
    const next = { slot: SLOT, rules: { egress, openAddresses: [] }, version: (before?.version ?? 0) + 1 };
    const gone = before === undefined ? "" : removeSets(facts, [before]);
    await writeFile(this.#file, makeSets(facts, next) + fillChains(facts, next) + gone);
    this.#before = next;
    return await timed(() => runBare(["nft", "-f", this.#file]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await run(["nft", "delete", "table", "inet", TABLE]);
    await rm(this.#file, { force: true });
  }
}
