/** The command that runs for a user, tried on the real kernel. */
import { describe, expect, test } from "bun:test";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onFirstUse } from "../../base/c-library.ts";
import { type Command, directCommand, findSetpriv, requireEntry, setprivCommand } from "./command.ts";

const PR_GET_DUMPABLE = 3;
const library = onFirstUse({ prctl: { args: ["int", "u64", "u64", "u64", "u64"], returns: "int" } });

const account = (uid: number, groups: number[]) => ({ name: "x", uid, gid: groups[0] ?? 0, home: "/", groups });
const command = (cmd: string, ...args: string[]): Command => ({
  argv: [cmd, ...args],
  argv0: cmd,
  cwd: "/",
  env: { PATH: "/usr/bin:/bin" },
  uid: 0,
  gid: 0,
});
const root = { uid: 0, gid: 0, groups: [] };

function output({ argv, argv0, env }: Command): string {
  return Bun.spawnSync(argv, { argv0, env }).stdout.toString().trim();
}

test("a user's process has all of the user's groups and no other", () => {
  const actual = setprivCommand(
    command("sh", "-c", "id -u; id -g; id -G"),
    account(12_345, [3, 1, 7]),
    findSetpriv(undefined),
  );
  expect(output(actual).split("\n")).toEqual(["12345", "3", "3 1 7"]);
});

test("an option-like program name is not taken for an option", () => {
  const actual = setprivCommand(command("--version"), account(1, [1]), findSetpriv(undefined));
  expect(Bun.spawnSync(actual.argv, { stderr: "pipe" }).exitCode).toBe(127);
});

test("root's processes need no helper, and keep their argv[0]", () => {
  const actual = directCommand(command("sh", "-c", "echo $0"), account(0, [0]), root);
  expect(actual).toMatchObject({ argv0: "sh" });
  expect(actual && output(actual)).toBe("sh");
});

test.each([
  ["another user", account(1, [0])],
  ["another primary group", account(0, [1])],
  ["more groups", account(0, [0, 4])],
])("%s needs the helper", (_, wanted) => {
  expect(directCommand(command("sh"), wanted, root)).toBeUndefined();
});

test("a program that cannot be found is left to the helper, which reports it", () => {
  expect(directCommand(command("no-such-program"), account(0, [0]), root)).toBeUndefined();
});

describe("a directory to start in", () => {
  const GROUP = 7_777;
  function enter(mode: string, groups: number[], below: string): unknown {
    const folder = mkdtempSync(join(tmpdir(), "sandlot-entry-"));
    try {
      chmodSync(folder, 0o755);
      const closed = join(folder, "closed");
      mkdirSync(join(closed, "open"), { recursive: true });
      symlinkSync(join(closed, "open"), join(folder, "link"));
      chownSync(closed, 0, GROUP);
      chmodSync(closed, Number.parseInt(mode, 8));
      requireEntry(join(folder, below), account(12_345, groups));
      return "entered";
    } catch (thrown) {
      return thrown instanceof Error ? thrown.message : thrown;
    } finally {
      // With root's rights again: the account may not remove the folder.
      rmSync(folder, { recursive: true });
    }
  }

  // Guards against checking the folder with the guest's own rights.
  test.each([
    ["700", "closed", [1]],
    ["700", "closed/open", [1]],
    ["700", "link", [1]],
    ["710", "closed", [1]],
    // As in the kernel: for a member of the group, the rights of others do not apply.
    ["701", "closed", [1, GROUP]],
  ])("of mode %s is closed: %s", (mode, below, groups) => {
    expect(enter(mode, groups, below)).toMatch(/cannot be entered by "x" \(EACCES\)/);
  });

  test.each([
    ["711", "closed", [1]],
    ["701", "link", [1]],
    ["710", "closed", [1, GROUP]],
    ["710", "closed/open", [GROUP]],
  ])("of mode %s is open: %s", (mode, below, groups) => {
    expect(enter(mode, groups, below)).toBe("entered");
  });

  test("the check restores the guest's own credentials", () => {
    const groups = process.getgroups?.();
    for (let count = 0; count < 100; count++) enter("700", [1, 2, 3], "closed");
    expect(process.getgroups?.()).toEqual(groups);
    expect(readdirSync("/root").length).toBeGreaterThanOrEqual(0);
    // Guards against a guest whose memory file belongs to another user.
    expect(library().prctl(PR_GET_DUMPABLE, 0n, 0n, 0n, 0n)).toBe(1);
  });
});
