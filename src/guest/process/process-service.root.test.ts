/** The Process service of a real daemon, in both encodings: starting, ending and finding processes. */
import { beforeAll, describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { untilTrue } from "../../base/testing/until.ts";
import { ENCODINGS, type Speaker, speaking } from "../testing/encodings.ts";
import { guestOfFile } from "../testing/guest-of-file.ts";
import { follow, nextText, ProcessCalls, shell } from "../testing/process-calls.ts";
import { basic } from "../testing/running-guest.ts";

const guest = await guestOfFile({ SANDLOT_LEAK: "must not be seen" });
await guest.configure({ envVars: { FROM_SANDBOX: "yes", E2B_SANDBOX: "forged" } });

describe.each(ENCODINGS)("in %s,", (encoding) => {
  let speaker: Speaker;
  let processes: ProcessCalls;
  beforeAll(() => {
    speaker = speaking(guest, encoding);
    processes = new ProcessCalls(speaker);
  });

  describe("the end of a process", () => {
    test("has exit code 0 on success", async () => {
      const result = await processes.run(shell("echo out; echo err >&2"));
      expect(result).toMatchObject({
        stdout: "out\n",
        stderr: "err\n",
        end: { exited: true, status: "exit status 0" },
      });
      expect(result.error).toBeUndefined();
      expect(Object.keys(result.end ?? {}).sort()).toEqual(["exited", "status"]);
    });

    test("has the exit code of a failure", async () => {
      const { end } = await processes.run(shell("exit 7"));
      expect(end).toEqual({ exitCode: 7, exited: true, status: "exit status 7", error: "exit status 7" });
    });

    test("has the signal's name", async () => {
      const { end } = await processes.run(shell("kill -TERM $$"));
      expect(end).toEqual({ exitCode: -1, status: "signal: terminated", error: "signal: terminated" });
    });

    // Guards against an end that is reported at the exit.
    test("waits for a descendant that holds the output", async () => {
      const result = await processes.run(shell("(sleep 0.3; echo late) & exit 2"));
      expect(result).toMatchObject({ stdout: "late\n", end: { exitCode: 2 } });
    });

    // Guards against an end that always waits for the output.
    test("does not wait for the holder of the output after a signal", async () => {
      const { pid, rest } = await processes.start(shell("sleep 30 & echo $!; sleep 30"));
      const sleeper = Number(await nextText(rest, "stdout"));
      const killed = await processes.kill(pid);
      expect(killed.status).toBe(200);
      const { end } = await follow(rest);
      expect(end).toEqual({ exitCode: -1, status: "signal: killed", error: "signal: killed" });
      process.kill(sleeper, "SIGKILL");
    });
  });

  describe("the lifetime of a process", () => {
    // Guards against a process that outlives the deadline.
    test("ends with Connect-Timeout-Ms, and so does the call", async () => {
      const { pid, rest } = await processes.start(shell("exec sleep 30"), { "Connect-Timeout-Ms": "2000" });
      expect((await follow(rest)).error?.code).toBe("deadline_exceeded");
      const after = await follow(processes.connect({ pid }));
      expect(after.end).toMatchObject({ exitCode: -1, status: "signal: killed" });
    });

    test("does not depend on the connection", async () => {
      const { pid, rest } = await processes.start(shell("exec sleep 30"), { "Connect-Timeout-Ms": "2000" });
      await rest.return(undefined);
      const later = await follow(processes.connect({ pid }));
      expect(later).toMatchObject({ pid, end: { status: "signal: killed" } });
    });

    test("of zero starts nothing", async () => {
      const result = await processes.run(shell("echo ran"), { "Connect-Timeout-Ms": "0" });
      expect([result.pid, result.stdout, result.error?.code]).toEqual([0, "", "deadline_exceeded"]);
    });

    test("above the range of timers is not reduced to zero", async () => {
      const result = await processes.run(shell("sleep 0.05; echo done"), { "Connect-Timeout-Ms": "9999999999" });
      expect(result).toMatchObject({ stdout: "done\n", end: { exited: true } });
    });
  });

  describe("the user of a process", () => {
    test("is root with root's environment by default", async () => {
      const { stdout } = await processes.run(shell("id -u; pwd; env | sort"));
      const [uid, cwd, ...variables] = stdout.trim().split("\n");
      expect([uid, cwd]).toEqual(["0", "/root"]);
      const names = variables.map((line) => line.split("=")[0]).filter((name) => name !== "_" && name !== "PWD");
      expect(names.filter((name) => name !== "OLDPWD" && name !== "SHLVL")).toEqual([
        "E2B_SANDBOX",
        "E2B_SANDBOX_ID",
        "E2B_TEMPLATE_ID",
        "FROM_SANDBOX",
        "HOME",
        "LOGNAME",
        "PATH",
        "USER",
      ]);
      expect(variables).toContain("E2B_SANDBOX=true");
    });

    test("is the named user, with gid and all groups", async () => {
      const message = { process: { cmd: "/bin/sh", args: ["-c", "id -u; id -g; id -G; echo $HOME $USER"], cwd: "/" } };
      const result = await processes.run(message, basic("daemon"));
      const expected = Bun.spawnSync(["id", "-G", "daemon"]).stdout.toString().trim();
      expect(result.stdout.trim().split("\n")).toEqual(["1", "1", expected, "/usr/sbin daemon"]);
    });
  });

  test.each([{}, basic("daemon")])(
    "a process may open its own stdin, stdout and stderr by name (%p)",
    async (headers) => {
      const script = "cat /dev/stdin; echo out > /dev/stdout; echo err > /dev/stderr";
      const { pid, rest } = await processes.start(
        { process: { cmd: "/bin/sh", args: ["-c", script], cwd: "/" } },
        headers,
      );
      await processes.input(pid, "in ");
      await processes.closeStdin(pid);
      expect(await follow(rest)).toMatchObject({
        stdout: "in out\n",
        stderr: "err\n",
        end: { status: "exit status 0" },
      });
    },
  );

  test("processes leave no descriptors behind in the guest", async () => {
    const open = () => readdirSync(`/proc/${guest.pid}/fd`).length;
    const kinds = [shell("echo x"), { ...shell("true"), stdin: false }, { process: { cmd: "no-such-program" } }];
    const round = async () => {
      for (const kind of kinds) await processes.run(kind);
      await processes.run({ ...shell("echo x"), pty: { size: { cols: 80, rows: 24 } } });
    };
    await round();
    const most = open() + 2;
    for (let count = 0; count < 10; count++) await round();
    // The last ones may be closed a moment after their ends were told.
    await untilTrue(() => open() <= most);
  });

  describe("a start that is invalid", () => {
    test.each([
      ["a directory that is missing", { process: { cmd: "true", cwd: "/nowhere" } }],
      ["a directory that is a file", { process: { cmd: "true", cwd: "/etc/passwd" } }],
      ["another user's home", { process: { cmd: "true", cwd: "~ghost" } }],
      ["no command", { process: { cmd: "" } }],
      ["no process at all", {}],
    ])("%s", async (_, message) => {
      expect((await processes.run(message)).error?.code).toBe("invalid_argument");
    });

    test("an argument that the kernel rejects", async () => {
      const { error } = await processes.run(shell("x".repeat(128 * 1024)));
      expect(error).toMatchObject({ code: "invalid_argument", message: expect.stringContaining("may have 128 KiB") });
    });
  });

  describe("finding a process", () => {
    test("List echoes what Start was given, for running processes only", async () => {
      const config = { cmd: "/bin/sleep", args: ["30"], envs: { A: "1" }, cwd: "~" };
      const { pid, rest } = await processes.start({ process: config, tag: "listed" });
      const list = async () =>
        ((await (await speaker.call("process.Process/List", {})).json()) as Listed).processes ?? [];
      interface Listed {
        processes?: { pid: number }[];
      }
      expect((await list()).find((each) => each.pid === pid)).toEqual({ config, pid, tag: "listed" } as {
        pid: number;
      });
      await processes.kill(pid);
      await follow(rest);
      expect((await list()).some((each) => each.pid === pid)).toBe(false);
    });

    test("Update without a size changes nothing, and SIGTERM ends it", async () => {
      const { pid, rest } = await processes.start(shell("exec sleep 30"));
      expect((await speaker.call("process.Process/Update", { process: { pid } })).status).toBe(200);
      await processes.kill(pid, "SIGNAL_SIGTERM");
      expect((await follow(rest)).end).toMatchObject({ status: "signal: terminated" });
    });
  });
});
