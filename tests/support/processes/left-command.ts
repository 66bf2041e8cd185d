/** A client that stops waiting for a command, and comes back to it. */
import { expect } from "bun:test";
import type { Sandbox } from "e2b";
import { refusalOf, until } from "../until.ts";

const COMMAND = "read -r _; echo still here";

/** The command runs on meanwhile, and is followed to its end. */
export async function leaveAndFollow(sandbox: Sandbox): Promise<void> {
  const impatience = new AbortController();
  const running = sandbox.commands.run(COMMAND, {
    stdin: true,
    signal: impatience.signal,
    timeoutMs: 0,
  });
  const given = refusalOf(running);
  // A command killed before may still be listed.
  const listed = async () => (await sandbox.commands.list()).find(({ args }) => args.includes(COMMAND));
  await until("it is listed", async () => (await listed()) !== undefined);
  impatience.abort();
  await given;
  const again = await sandbox.commands.connect((await listed())?.pid ?? 0);
  await again.sendStdin("\n");
  expect((await again.wait()).stdout).toBe("still here\n");
}
