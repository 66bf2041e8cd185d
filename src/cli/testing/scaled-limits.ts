/** Prints timeouts of this process, and of a tool that it runs. With an argument it is that tool. */
import { scaled } from "../../base/time-factor.ts";
import { KILL_WAIT_MS } from "../../control/lifecycle/lifecycle.ts";
import { DELIVERY_MS } from "../../control/webhooks/webhook-post.ts";
import { EDGE_PROCESS_START_MS } from "../../edge/process/edge-processes.ts";
import { GUEST_READY_MS } from "../../sandbox/guest-link/guest-client.ts";
import { RESTORE_STALLED_MS } from "../../sandbox/runtime/crun/criu.ts";
import { run } from "../../system/command.ts";

if (process.argv.length > 2) {
  console.log(scaled(1000));
} else {
  const inTool = Number(await run([process.execPath, import.meta.path, "tool"]));
  const internal = { GUEST_READY_MS, RESTORE_STALLED_MS, EDGE_PROCESS_START_MS, KILL_WAIT_MS, inTool };
  console.log(JSON.stringify({ internal, promised: { DELIVERY_MS } }));
}
