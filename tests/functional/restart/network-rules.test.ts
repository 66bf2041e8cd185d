/** A server is killed while it changes network rules: its next start enforces the stored rules. */
import { expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { OUTSIDE } from "../../../src/host/testing/outer-network.ts";
import { startServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";

const folder = foldersOfFile();
const SANDBOXES = 4;
/** Answered before the server is killed, by all sandboxes together. */
const CHANGES = 8;

async function reaches(sandbox: Sandbox): Promise<boolean> {
  const told = await sandbox.commands.run(`curl -s --max-time 20 http://${OUTSIDE}/ >/dev/null && echo yes || echo no`);
  return told.stdout.trim() === "yes";
}

/** Toggles the rules of a sandbox until the server is gone. Returns the last confirmed and the last requested rules. */
async function change(sandbox: Sandbox, answered: () => void): Promise<{ told: boolean | null; asked: boolean }> {
  let told: boolean | null = null;
  for (let isOpen = false; ; isOpen = !isOpen) {
    try {
      await sandbox.updateNetwork({ denyOut: isOpen ? [] : [OUTSIDE] });
    } catch {
      return { told, asked: isOpen };
    }
    told = isOpen;
    answered();
  }
}

test("rules of running sandboxes are those of their records, wherever the server was killed", async () => {
  const data = folder("network-rules");
  const server = await startServer(data, { SANDLOT_READY: "0" });
  const create = () => Sandbox.create({ ...server.options, timeoutMs: 600_000, retries: 0 });
  const sandboxes = await Promise.all(Array.from({ length: SANDBOXES }, create));
  const enough = Promise.withResolvers<void>();
  let left = CHANGES;
  const answered = () => void (--left === 0 && enough.resolve());
  const changes = sandboxes.map((sandbox) => change(sandbox, answered));
  await enough.promise;
  await server.crash();
  const outcomes = await Promise.all(changes);

  const next = await startServer(data, { SANDLOT_READY: "0" });
  for (const [at, { sandboxId }] of sandboxes.entries()) {
    const sandbox = await Sandbox.connect(sandboxId, next.options);
    const recorded = (await sandbox.getInfo()).network?.denyOut?.length === 0;
    expect([outcomes[at]?.told, outcomes[at]?.asked]).toContain(recorded);
    await until("what holds is what the record says", async () => (await reaches(sandbox)) === recorded);
    await sandbox.updateNetwork({ denyOut: recorded ? [OUTSIDE] : [] });
    expect(await reaches(sandbox)).toBe(!recorded);
  }
  await next.stop();
});
