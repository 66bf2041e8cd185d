/** Assigns one of the machine's slot nets to each server. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { NET_COUNT } from "../../contract/address-plan.ts";
import { Fault } from "../../contract/fault.ts";
import { type DataFolder, lockOfAllServers, otherServers, readText } from "../../system/data-folder.ts";

/** The assignment lasts as long as the server's run folder. */
export function serverNet({ runFolder, tag }: Pick<DataFolder, "runFolder" | "tag">): number {
  const own = join(runFolder, "net");
  using _lock = lockOfAllServers("nets");
  if (existsSync(own)) return Number(readFileSync(own, "utf8"));
  const taken = new Set(otherServers(tag).map((folder) => Number(readText(join(folder, "net")) ?? -1)));
  for (let net = 0; net < NET_COUNT; net++) {
    if (taken.has(net)) continue;
    writeFileSync(own, String(net));
    return net;
  }
  throw new Fault(503, `${NET_COUNT} servers already run on this machine. FIX: stop one with \`sandlot down\``);
}
