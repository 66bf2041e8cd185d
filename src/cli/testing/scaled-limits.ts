/** Says what limits are in this process, and in a tool that it runs. With an argument: in that tool. */
import { DELIVERY_MS, KILL_WAIT_MS } from "../../control/limits.ts";
import { EDGE_PROCESS_START_MS } from "../../edge/limits.ts";
import { GUEST_READY_MS, RESTORE_STALLED_MS } from "../../host/limits.ts";
import { run } from "../../host/system/command.ts";
import { scaled } from "../../work/time-factor.ts";

if (process.argv.length > 2) {
  console.log(scaled(1000));
} else {
  const inTool = Number(await run([process.execPath, import.meta.path, "tool"]));
  const internal = { GUEST_READY_MS, RESTORE_STALLED_MS, EDGE_PROCESS_START_MS, KILL_WAIT_MS, inTool };
  console.log(JSON.stringify({ internal, promised: { DELIVERY_MS } }));
}
