/** Memory of the server's own processes when it has no sandboxes: as started, and after many have come and gone. */
import { runningServer } from "../../../src/cli/server-file.ts";
import type { Context } from "../../context.ts";
import { treeOf } from "../../figures/process-tree.ts";
import { mib, residentBytes, residentBytesTogether } from "../../figures/resident-memory.ts";
import type { Row } from "../../row.ts";
import { SecondServer } from "../../sandboxes/second-server.ts";
import { endAll, grow } from "./crowd.ts";

const SANDBOXES = 100;
const SANDBOXES_QUICK = 20;
/** Longer than the server keeps a guest without sandboxes in memory. */
const REST_MS = 15_000;
const MAX_MIB = 200;
const AIM_MIB = 120;
const MIB = 1024 ** 2;

export const serverMemory: Row = {
  name: "server-memory",
  what: `memory of server, edge and relay without sandboxes, also after 100: at most ${MAX_MIB} MiB (aim ${AIM_MIB} MiB)`,
  async run(given) {
    await using second = await SecondServer.start(given);
    const { context } = second;
    await Bun.sleep(REST_MS);
    const fresh = restOf(context);
    const count = context.quick ? SANDBOXES_QUICK : SANDBOXES;
    const ids: string[] = [];
    try {
      await grow(context, ids, count);
    } finally {
      await endAll(context, ids);
    }
    await Bun.sleep(REST_MS);
    const after = restOf(context);
    const text = `after ${count} sandboxes ${after.text}`;
    const broken = Math.max(fresh.bytes, after.bytes) > MAX_MIB * MIB ? [`${text}, more than ${MAX_MIB} MiB`] : [];
    return { notes: [`as started ${fresh.text}`, text], broken };
  },
};

function restOf({ data }: Context): { bytes: number; text: string } {
  const pids = treeOf(runningServer(data) ?? 0);
  const bytes = residentBytesTogether(pids);
  return { bytes, text: `${mib(bytes)} MiB (${pids.map((pid) => mib(residentBytes(pid))).join(" + ")} alone)` };
}
