/**
 * `sandlot top`: the sandboxes of all teams with their use of the machine. On a terminal it is a live view with keys;
 * elsewhere it prints one table. It reads and acts through the admin socket.
 */
import { Fault } from "../../../contract/fault.ts";
import { adminCall } from "../../admin-client.ts";
import type { Config } from "../../settings/config.ts";
import { LiveView } from "./live-view.ts";
import { type AdminCall, sampleOf, statusOf } from "./top-readings.ts";
import { filtered, headLine, lineOf, rowsOf, SORT_KEYS, sorted, summary } from "./top-table.ts";

/** Between the two samples of a single table. */
const SAMPLE_MS = 1_000;

interface TopOptions {
  sort: string;
  filter: string;
}

export async function top(config: Config, { sort, filter }: TopOptions): Promise<number> {
  const key = SORT_KEYS.find((each) => each === sort);
  if (key === undefined) throw new Fault(400, `--sort must be ${SORT_KEYS.join(", ")}, not "${sort}"`);
  const call: AdminCall = (request) => adminCall(config, request);
  const { stdin, stdout } = process;
  if (stdin.isTTY && stdout.isTTY) {
    return await new LiveView(call, key, filter, (text) => void stdout.write(text)).run();
  }
  const earlier = await sampleOf(call);
  await Bun.sleep(SAMPLE_MS);
  const [status, now] = [await statusOf(call), await sampleOf(call)];
  const rows = sorted(filtered(rowsOf(earlier, now), filter), key);
  console.log([...summary(status), "", headLine(), ...rows.map(lineOf)].join("\n"));
  return 0;
}
