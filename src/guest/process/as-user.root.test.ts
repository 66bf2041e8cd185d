/** A change of user without a helper: what the process is, and that nothing of it is left in the program itself. */
import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ProcessCalls, shell } from "../testing/process-calls.ts";
import { basic, RunningGuest } from "../testing/running-guest.ts";
import { asUser, canStartAsOthers } from "./as-user.ts";

const USER = { uid: 12_345, gid: 3, groups: [1, 3, 7] };
const FIELDS = /^(Uid|Gid|Groups|CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|SigBlk|SigIgn):.*$/gm;
const STATUS = ["cat", "/proc/self/status"];

const fieldsOf = (status: string) => status.match(FIELDS)?.map((line) => line.trimEnd());
const threadFields = () =>
  readdirSync("/proc/self/task").map((id) =>
    fieldsOf(readFileSync(`/proc/self/task/${id}/status`, "utf8"))?.slice(0, 3),
  );
const ownFields = fieldsOf(readFileSync("/proc/thread-self/status", "utf8"))?.slice(0, 3);

// Seen to fail without the groups, and with a real user that stays ours.
test("the process is what the helper would have made of it, in everything", () => {
  const helper = ["setpriv", `--reuid=${USER.uid}`, `--regid=${USER.gid}`, `--groups=${USER.groups.join()}`, "--"];
  const helped = fieldsOf(Bun.spawnSync([...helper, ...STATUS]).stdout.toString());
  const direct = fieldsOf(asUser(USER, (ids) => Bun.spawnSync(STATUS, ids)).stdout.toString());
  expect(direct).toEqual(helped as string[]);
  expect(direct?.slice(0, 3)).toEqual(["Uid:\t12345\t12345\t12345\t12345", "Gid:\t3\t3\t3\t3", "Groups:\t1 3 7"]);
  expect(direct).toContain("CapPrm:\t0000000000000000");
});

describe("afterwards every thread is what it was,", () => {
  const expectOwn = () => expect(threadFields().filter((fields) => !Bun.deepEquals(fields, ownFields))).toEqual([]);

  test("whatever came of it", () => {
    for (let count = 0; count < 20; count++) asUser(USER, (ids) => Bun.spawnSync(["true"], ids));
    expect(() =>
      asUser(USER, () => {
        throw new Error("no such program");
      }),
    ).toThrow("no such program");
    expectOwn();
  });

  // Seen to fail without a look at what setGroups() says: it was started with groups of ours.
  test("when the kernel refuses, and then nothing is started", () => {
    const groups = Array.from({ length: 65_537 }, (_, gid) => gid);
    let started = false;
    const start = () => {
      started = true;
    };
    expect(() => asUser({ uid: 12_345, gid: 3, groups }, start)).toThrow("refuses to change groups");
    expect(started).toBe(false);
    expectOwn();
  });

  // Seen to fail without setGidsOfAllThreads(): it had the user's group as one of its own.
  test("also one that was started meanwhile, but for groups that mean nothing to root", () => {
    const before = readdirSync("/proc/self/task").length;
    const worker = asUser(USER, () => new Worker("data:text/javascript,setTimeout(() => {}, 60_000)"));
    expect(readdirSync("/proc/self/task").length).toBeGreaterThan(before);
    const ids = threadFields().map((fields) => fields?.slice(0, 2));
    expect(ids.filter((own) => !Bun.deepEquals(own, ownFields?.slice(0, 2)))).toEqual([]);
    worker.terminate();
  });
});

// Seen to fail without the exit: it went on.
test("a program that cannot take its own groups back ends", () => {
  const script = `
    const { asUser } = await import(process.argv.at(-1));
    asUser({ uid: 12_345, gid: 3, groups: [1] }, () => process.setuid(12_345));
    console.log("went on");`;
  const { exitCode, stdout, stderr } = Bun.spawnSync([
    process.execPath,
    "-e",
    script,
    join(import.meta.dir, "as-user.ts"),
  ]);
  expect([exitCode, stdout.toString()]).toEqual([1, ""]);
  expect(stderr.toString()).toContain("it kept another user's groups");
});

describe("a guest", () => {
  const NO_HELPER = { SANDLOT_SETPRIV: "/no/such/helper" };
  const ids = { process: { cmd: "sh", args: ["-c", "id -u; id -g; id -G"], cwd: "/" } };

  // Seen to fail with the helper alone.
  test.each([
    ["on pipes", {}],
    ["in a terminal", { pty: { size: { cols: 80, rows: 24 } } }],
  ])("that is alone starts processes of users itself, %s", async (_, kind) => {
    await using guest = await RunningGuest.startAlone(NO_HELPER);
    const told = await new ProcessCalls(guest).run({ ...ids, ...kind }, basic("daemon"));
    expect((told.stdout + told.pty).split(/\s+/)).toEqual(["1", "1", "1", ""]);
  });

  // Seen to fail without canStartAsOthers(): it was never the helper's.
  test("that is not alone leaves them to the helper, until it is alone again", async () => {
    await using guest = await RunningGuest.startAlone(NO_HELPER);
    const processes = new ProcessCalls(guest);
    const { pid, rest } = await processes.start({ ...shell("read -r _"), stdin: true });
    expect((await processes.run(ids, basic("daemon"))).error).toBeDefined();
    await processes.closeStdin(pid);
    for await (const _ of rest);
    expect((await processes.run(ids, basic("daemon"))).stdout).toBe("1\n1\n1\n");
  });

  // Seen to fail without an end of its own: it ran on after the tests, without a parent.
  test("that was another user for a moment is gone when its test is over", async () => {
    const guest = await RunningGuest.startAlone(NO_HELPER);
    await new ProcessCalls(guest).run(ids, basic("daemon"));
    await guest[Symbol.asyncDispose]();
    await expect(guest.fetch("/health")).rejects.toThrow();
  });

  test("beside the processes of a machine is not alone", () => expect(canStartAsOthers()).toBe(false));
});
