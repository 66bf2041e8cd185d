/** A client that stops waiting for a command, and comes back to it. */
import { expect } from "bun:test";
import type { Sandbox } from "e2b";
import { refusalOf, until } from "../until.ts";

/** The command runs on meanwhile, and is followed to its end. The sandbox has no other. */
export async function leaveAndFollow(sandbox: Sandbox): Promise<void> {
  const impatience = new AbortController();
  const running = sandbox.commands.run("read -r _; echo still here", {
    stdin: true,
    signal: impatience.signal,
    timeoutMs: 0,
  });
  const given = refusalOf(running);
  const listed = async () => (await sandbox.commands.list()).at(0);
  await until("it is listed", async () => (await listed()) !== undefined);
  impatience.abort();
  await given;
  const again = await sandbox.commands.connect((await listed())?.pid ?? 0);
  await again.sendStdin("\n");
  expect((await again.wait()).stdout).toBe("still here\n");
}
