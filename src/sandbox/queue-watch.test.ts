/** Which sandboxes the queue watch looks at. What counts as an offence: socket-queues.root.test.ts. */
import { expect, test } from "bun:test";
import { QUEUE_CHECK_TURN, QUEUED_PER_SANDBOX_MAX_BYTES, QueueWatch } from "./queue-watch.ts";
import { RunningSandboxes } from "./running-sandboxes.ts";
import type { SandboxRecord } from "./sandbox-record.ts";

function record(id: string): SandboxRecord {
  return { id, pid: process.pid, pidStartTicks: 0, slot: 7, controlSecret: "secret" } as unknown as SandboxRecord;
}

// Guards against ending a sandbox silently that is being paused and whose pause fails.
test("a sandbox that is removed during a check is skipped, and checked when it is back", async () => {
  const running = new RunningSandboxes("/run/sandboxes", { address: () => "198.18.0.7" });
  const last = `i${QUEUE_CHECK_TURN}`;
  for (let at = 0; at <= QUEUE_CHECK_TURN; at++) running.add(record(`i${at}`));
  const ended: string[] = [];
  const queued = () => ({ sockets: 0, bytes: QUEUED_PER_SANDBOX_MAX_BYTES + 1 });
  const watch = new QueueWatch(
    () => running.records(),
    (id) => void ended.push(id),
    queued,
  );
  const looked = watch.check();
  running.hide(last);
  await looked;
  expect(ended).toHaveLength(QUEUE_CHECK_TURN);
  expect(ended).not.toContain(last);
  running.add(record(last));
  await watch.check();
  expect(ended).toContain(last);
  watch.close();
});
