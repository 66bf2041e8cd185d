/** Processes in terminals of a real daemon. */
import { describe, expect, test } from "bun:test";
import { guestOfFile } from "../testing/guest-of-file.ts";
import { follow, nextText, ProcessCalls, refusal, shell } from "../testing/process-calls.ts";
import { basic } from "../testing/running-guest.ts";

const guest = await guestOfFile();
const processes = new ProcessCalls(guest);

describe("a process in a terminal", () => {
  const terminal = (script: string) => ({ ...shell(script), pty: { size: { cols: 90, rows: 33 } } });

  test("has a session, a size and the user's identity", async () => {
    // The terminal is handed to its user right after the start, which the program may be ahead of.
    const script =
      "until test -r $(tty); do sleep 0.02; done; stty size < $(tty); id -un; ps -o sid= -o tty= -p $$; echo $$";
    const message = {
      process: { cmd: "/bin/sh", args: ["-c", script], cwd: "/" },
      pty: { size: { cols: 90, rows: 33 } },
    };
    const { pty, end, pid } = await processes.run(message, basic("daemon"));
    const [size, user, session, self] = pty.trim().split("\r\n");
    expect([size, user, self]).toEqual(["33 90", "daemon", String(pid)]);
    expect(session).toMatch(new RegExp(`^\\s*${pid} pts/`));
    expect(end).toMatchObject({ status: "exit status 0" });
  });

  test("gets input, is resized and killed", async () => {
    const { pid, rest } = await processes.start(
      terminal("stty -echo; echo ready; read line; stty size; echo got $line; sleep 30"),
    );
    const hear = async (text: string) => {
      let received = "";
      while (!received.includes(text)) received += await nextText(rest, "pty");
      return received;
    };
    expect(await hear("\n")).toBe("ready\r\n");
    const size = { cols: 70_000, rows: 40 };
    expect((await guest.call("process.Process/Update", { process: { pid }, pty: { size } })).status).toBe(200);
    expect((await processes.type(pid, "hello\n")).status).toBe(200);
    expect(await hear("got hello")).toContain(`40 ${70_000 & 0xffff}\r\n`);
    expect(await refusal(processes.input(pid, "x"))).toEqual([500, "internal"]);
    expect(await refusal(processes.closeStdin(pid))).toEqual([500, "unknown"]);
    await processes.kill(pid);
    expect((await follow(rest)).end).toEqual({ exitCode: -1, status: "signal: killed", error: "signal: killed" });
  });

  // Zero stands for the usual size, in the same way for both calls.
  test.each([
    [{ cols: 0, rows: 0 }, "24 80"],
    [{ cols: 0, rows: 5 }, "5 80"],
    [{ cols: 50, rows: 65_536 }, "24 50"],
  ])("of the size %j has %s, from its start or by an update", async (size, expected) => {
    const started = await processes.run({ ...shell("stty size"), pty: { size } });
    expect(started.pty.trim()).toBe(expected);
    const { pid, rest } = await processes.start(terminal("stty -echo; echo ready; read line; stty size"));
    while (!(await nextText(rest, "pty")).includes("ready"));
    expect((await guest.call("process.Process/Update", { process: { pid }, pty: { size } })).status).toBe(200);
    await processes.type(pid, "\n");
    expect((await follow(rest)).pty.trim()).toBe(expected);
  });

  test("loses none of its output", async () => {
    const { pty } = await processes.run(terminal("seq 1 60000"));
    const lines = pty.trimEnd().split("\r\n");
    expect(lines).toHaveLength(60_000);
    expect(lines.every((line, at) => line === String(at + 1))).toBe(true);
  });
});
