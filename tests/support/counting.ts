/** A process in a sandbox that shows whether it went on, after a pause or an upgrade, from where it was. */
import { expect } from "bun:test";
import type { Sandbox } from "e2b";

const COUNT = "n=0; while sleep 0.05; do n=$((n+1)); echo $n > /tmp/count; done";

export async function counting(sandbox: Sandbox): Promise<void> {
  await sandbox.commands.run(COUNT, { background: true, timeoutMs: 0 });
  await sandbox.commands.run("until [ -s /tmp/count ]; do sleep 0.05; done; echo kept > /tmp/kept");
}

/** The processes go on from where they were: the file is written again, with a higher number. */
export async function expectCounting(sandbox: Sandbox): Promise<void> {
  const line =
    "a=$(cat /tmp/count); until [ $(cat /tmp/count) -gt $a ]; do sleep 0.05; done 2> /dev/null; cat /tmp/kept";
  expect((await sandbox.commands.run(line)).stdout).toBe("kept\n");
}
