/** The command that the kernel runs for a user, tried on the kernel. */
import { expect, test } from "bun:test";
import { type Command, directCommand, findSetpriv, setprivCommand } from "./command.ts";

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

test("root's own processes need no helper, and keep the name they were called by", () => {
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

test("a program that cannot be found is left to the helper, which says so", () => {
  expect(directCommand(command("no-such-program"), account(0, [0]), root)).toBeUndefined();
});
