/** Errors of the unmodified JavaScript SDK against a real daemon. Tests with sandboxes cover its successes. */
import { expect, test } from "bun:test";
import { AuthenticationError, Sandbox } from "e2b";
import { guestOfFile } from "./testing/guest-of-file.ts";

const guest = await guestOfFile();
// In debug mode the SDK asks no management server and sends no token.
const sandbox = await Sandbox.connect("debug", { debug: true, sandboxUrl: guest.url });

test("commands, files and terminals of an unknown user are rejected", async () => {
  const user = "ghost";
  const refused = [
    () => sandbox.commands.run("true", { user }),
    () => sandbox.commands.run("true", { user, background: true }),
    () => sandbox.pty.create({ user, cols: 80, rows: 24, onData: () => undefined }),
    () => sandbox.files.list("/", { user }),
    () => sandbox.files.makeDir("/tmp/ghost", { user }),
    () => sandbox.files.watchDir("/tmp", () => undefined, { user }),
    () => sandbox.files.read("/etc/passwd", { user }),
    () => sandbox.files.write("/tmp/ghost", "", { user }),
  ];
  for (const call of refused) {
    const error = await call().catch((thrown: unknown) => thrown);
    expect([String(call), error]).toEqual([String(call), expect.any(AuthenticationError)]);
    expect(error).toMatchObject({ message: expect.stringContaining("invalid username: 'ghost'") });
  }
});
