/**
 * User processes have lower priority than the guest from their start, and a sandbox reports which resource it has run
 * out of.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { getPriority, setPriority } from "node:os";
import { join } from "node:path";
import { SANDBOX_PIDS_MAX } from "../../contract/runtime/limits.ts";
import { guestOfFile } from "../testing/guest-of-file.ts";
import { ProcessCalls, shell } from "../testing/process-calls.ts";
import { basic, RunningGuest } from "../testing/running-guest.ts";
import { SANDBOX_PIDS_FOR_ROOT } from "./priority.ts";

const guest = await guestOfFile();
const processes = new ProcessCalls(guest);

const PTY = { pty: { size: { cols: 80, rows: 24 } } };
const guestFile = (name: string) => readFileSync(`/proc/${guest.pid}/${name}`, "utf8");
const limitsOfGuest = guestFile("limits");
const processesMax = (limits: string) => /Max processes +(\S+) +(\S+)/.exec(limits)?.[1];
/**
 * In a shell: the guest lowers a process right after its start, which the process may be ahead of. Not for ever,
 * though.
 */
const waitUntil = (condition: string) =>
  `i=0; until [ ${condition} ] || [ $i = 500 ]; do sleep 0.02; i=$((i + 1)); done`;

describe.each([
  ["root", {}, {}],
  ["another user", {}, basic("daemon")],
  ["root, in a terminal", PTY, {}],
  ["another user, in a terminal", PTY, basic("daemon")],
] as [string, object, Record<string, string>][])("a process of %s", (_, kind, headers) => {
  const ask = async (script: string) => {
    const result = await processes.run(
      { process: { cmd: "/bin/sh", args: ["-c", script], cwd: "/" }, ...kind },
      headers,
    );
    return (result.stdout + result.pty).trim();
  };

  // Guards against setting the score after the start only (earlier children have the guest's), and keeping it for the
  // guest.
  test("is killed before the guest when memory runs out, and so are its children", async () => {
    const own = guestFile("oom_score_adj");
    const score = "cat /proc/$$/oom_score_adj";
    const output = await ask(`cat /proc/self/oom_score_adj; ${waitUntil(`$(${score}) = 1000`)}; ${score}`);
    const [first, later] = output.split(/\s+/);
    expect(["500", "1000"]).toContain(first as string);
    expect(later).toBe("1000");
    expect(guestFile("oom_score_adj")).toBe(own);
    expect(Number(own)).toBeLessThan(1000);
  });

  // Guards against equal niceness of both.
  test("has lower processor priority than the guest", async () => {
    expect(await ask(`${waitUntil("$(nice) = 15")}; nice`)).toBe("15");
    const fields = guestFile("stat").replace(/.*\) /, "").split(" ");
    expect(fields[16]).toBe(String(getPriority()));
  });
});

// Guards against EACCES, because the sandbox's root is not the machine's.
test("a process that ended before its priority was set logs no error", () => {
  const script = `
    import { lowerBelowGuest } from ${JSON.stringify(`${import.meta.dir}/priority.ts`)};
    import { readFileSync } from "node:fs";
    import { until } from ${JSON.stringify(join(import.meta.dir, "../../base/testing/until.ts"))};
    // The shell becomes a program that does not wait for its children, and only then the child ends.
    const child = "(until read -r name < /proc/$$/comm && [ $name = sleep ]; do :; done) &";
    const shell = Bun.spawn(["/bin/sh", "-c", child + " echo $!; exec sleep 600"], { stdout: "pipe" });
    process.on("exit", () => shell.kill("SIGKILL"));
    const { value } = await shell.stdout.getReader().read();
    const pid = Number(new TextDecoder().decode(value));
    await until("the child has ended", () => / Z /.test(readFileSync("/proc/" + pid + "/stat", "utf8")));
    lowerBelowGuest(pid);
    console.log("called");
    process.exit();`;
  const asRootOfNamespace = ["setpriv", "--reuid=4321", "--regid=4321", "--clear-groups", "unshare", "-Ur"];
  const { stdout, stderr } = Bun.spawnSync([...asRootOfNamespace, process.execPath, "-e", script], { env: {} });
  expect([stdout.toString(), stderr.toString()]).toEqual(["called\n", ""]);
});

// Guards against niceness 15 for users whatever the guest has, and niceness inherited by a fork.
describe("a guest with raised priority", () => {
  const setOwn = (niceness: number) => setPriority(guest.pid, niceness);
  beforeAll(() => setOwn(-15));
  afterAll(() => setOwn(0));

  test.each([
    ["root", {}],
    ["another user", basic("daemon")],
  ] as [string, Record<string, string>][])("starts processes of %s at niceness 0", async (_, headers) => {
    const result = await processes.run({ process: { cmd: "/bin/sh", args: ["-c", "nice"], cwd: "/" } }, headers);
    expect(result.stdout).toBe("0\n");
    expect(guestFile("stat").replace(/.*\) /, "").split(" ")[16]).toBe("-15");
  });
});

// Guards against a limit that also counts for root's processes, and one that the guest keeps for itself.
test("an ordinary user's processes leave some process slots to root", async () => {
  const ask = async (headers: Record<string, string>) =>
    processesMax(
      (await processes.run({ process: { cmd: "cat", args: ["/proc/self/limits"], cwd: "/" } }, headers)).stdout,
    );
  expect(await ask(basic("daemon"))).toBe(String(SANDBOX_PIDS_MAX - SANDBOX_PIDS_FOR_ROOT));
  expect(await ask({})).toBe(processesMax(limitsOfGuest) as string);
  expect(guestFile("limits")).toBe(limitsOfGuest);
});

function limitTo(pid: number, ...limits: string[]): void {
  const asNobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
  const { exitCode, stderr } = Bun.spawnSync([...asNobody, "prlimit", `--pid=${pid}`, ...limits]);
  if (exitCode !== 0) throw new Error(stderr.toString());
}

// Guards against invalid_argument, which would blame the request.
test.each([
  ["processes", "--nproc=1:", "room for another process"],
  ["descriptors", "--nofile=24:", "descriptors for open files"],
])("a sandbox out of %s reports it, and starts processes again later", async (_, limit, words) => {
  await using short = await RunningGuest.startHarmless();
  await short.configure({ defaultUser: "nobody", defaultWorkdir: "/" });
  const calls = new ProcessCalls(short);
  // A guest loads its call handlers with the first call. From sources that takes threads and descriptors.
  await calls.run(shell("true"));
  limitTo(short.pid, limit);
  const held = [];
  let refused = await calls.run(shell("true"));
  for (let tries = 0; refused.error === undefined && tries < 20; tries++) {
    held.push(await calls.start(shell("read -r _")).catch(() => undefined));
    refused = await calls.run(shell("true"));
  }
  expect(refused.error).toEqual({ code: "resource_exhausted", message: expect.stringContaining(words) });
  expect((await short.fetch("/health")).status).toBe(204);
  limitTo(short.pid, "--nproc=4096:", "--nofile=4096:");
  expect((await calls.run(shell("echo again"))).stdout).toBe("again\n");
});
