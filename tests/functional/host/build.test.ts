/** Builds on the real machine: effects of steps, reuse, failures, and that nothing is left behind. */
import { afterEach, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "../../../src/base/testing/test-folder.ts";
import { timed } from "../../../src/base/testing/timed.ts";
import { Fault } from "../../../src/contract/fault.ts";
import type { BuildOutcome, BuildRequest } from "../../../src/contract/internal/host.ts";
import {
  base,
  build,
  copy,
  env,
  requestOf,
  requireReady,
  run,
  shellOf,
  user,
  workdir,
} from "../../support/building.ts";
import { NOTHING, settledCensus } from "../../support/census.ts";
import { inPlaceOfGuest } from "../../support/impostor.ts";
import { MachineOfFile } from "../../support/machine-of-file.ts";

/** As uploads come: an archive of the client's folder, gzipped or not. */
const context = folderOfFile("context");
mkdirSync(join(context, "app/src"), { recursive: true });
writeFileSync(join(context, "app/src/main.py"), "print('copied')\n");
writeFileSync(join(context, "one.txt"), "one\n");
const packed = (...args: string[]) => Bun.spawnSync(["tar", "--directory", context, "--create", ...args]).stdout;
const archives: Record<string, Buffer> = {
  "files/app": packed("--gzip", "app"),
  "files/one": packed("one.txt"),
  "files/broken": packed("app").subarray(0, 700),
};
const files = {
  async open(name: string): Promise<ReadableStream<Uint8Array>> {
    const archive = archives[name];
    if (archive === undefined) throw new Fault(404, `there is no file ${name}`);
    return new Blob([new Uint8Array(archive)]).stream();
  },
};

const here = new MachineOfFile("build", { files });
const hurried = new MachineOfFile("build-hurried", { builds: { maxMs: 500 } });
afterEach(async () => {
  expect(await settledCensus(here.dataFolder, NOTHING)).toEqual(NOTHING);
});

const messages = ({ entries }: { entries: { message: string; step: string | null }[] }, step: string) =>
  entries.filter((entry) => entry.step === step).map(({ message }) => message);

const inSandbox = (outcome: BuildOutcome, line: string) => shellOf(here, outcome, line);

describe("steps", () => {
  test("run in order, and each sees the results of the previous ones", async () => {
    const built = await build(
      here.machine,
      requestOf([
        run("id -un; pwd; echo one > file"),
        env(["A", "1"], ["PATH", "/opt/tools:$PATH"]),
        env(["B", "$A and $HOME, not $(id)"]),
        workdir("sub/folder"),
        run("pwd; stat -c %U . ..; echo $B; echo $PATH | cut -d: -f1; cat ../../file >&2"),
        run("id -un; echo $HOME", "root"),
        workdir("/srv/app"),
      ]),
    );
    expect(messages(built, "1").slice(1)).toEqual(["user", "/home/user"]);
    expect(messages(built, "5").slice(1)).toEqual([
      "/home/user/sub/folder",
      "user",
      "user",
      "1 and /home/user, not $(id)",
      "/opt/tools",
      "one",
    ]);
    expect(messages(built, "6").slice(1)).toEqual(["root", "/root"]);
    expect(built.outcome).toMatchObject({
      isReady: true,
      defaultUser: "user",
      defaultWorkdir: "/srv/app",
      envVars: { A: "1", B: "1 and /home/user, not $(id)" },
      checkpoint: null,
    });
    const found = await inSandbox(
      built.outcome,
      "cat /home/user/file; stat -c %U /srv/app; cut -d= -f1 /.e2b; cat /.e2b",
    );
    expect(found.split("\n").slice(0, 6)).toEqual(["one", "user", "ENV_ID", "TEMPLATE_ID", "BUILD_ID", "ENV_ID=tpl"]);
  });

  test("copy uploads for the current user or the given owner", async () => {
    const built = await build(
      here.machine,
      requestOf([
        env(["PLACE", "placed"]),
        copy("app", "app", "$PLACE/"),
        copy("one", "one.txt", "/srv/named.txt", { owner: "root", mode: "0640" }),
        run(
          "stat -c '%U %a' /srv/named.txt placed/src/main.py; python3 placed/src/main.py; find / -maxdepth 1 -name '.*up*'",
        ),
      ]),
    );
    requireReady(built.outcome);
    expect(messages(built, "4").slice(1)).toEqual(["root 640", "user 644", "copied"]);
  });

  test("switch to a user, create it if missing, and make it the default user", async () => {
    const steps = [
      user("builder"),
      workdir("/srv"),
      run("id -un; pwd; echo $HOME; sudo -n true 2>&1 | tail -1"),
      user("helper", true),
      workdir("~/work"),
      run("pwd; sudo -n id -un"),
      user("builder"),
    ];
    const built = await build(here.machine, requestOf(steps));
    expect(messages(built, "3").slice(1)).toEqual([
      "builder",
      "/srv",
      "/home/builder",
      expect.stringContaining("sudo"),
    ]);
    expect(messages(built, "6").slice(1)).toEqual(["/home/helper/work", "root"]);
    expect(built.outcome).toMatchObject({ isReady: true, defaultUser: "builder", defaultWorkdir: "/home/helper/work" });
    expect(await inSandbox(built.outcome, "getent passwd builder | cut -d: -f6-")).toBe("/home/builder:/bin/bash");
  });

  test("are cached; steps after a change run again", async () => {
    const steps = [run("echo $RANDOM$RANDOM > drawn"), run("cp drawn copy")];
    const first = await build(here.machine, requestOf(steps));
    const again = await build(here.machine, requestOf(steps));
    expect(messages(again, "2")).toEqual(["[2/2] CACHED RUN cp drawn copy"]);
    expect(again.outcome).toEqual(first.outcome);
    const more = await build(here.machine, requestOf([...steps.slice(0, 1), env(["A", "1"]), run("cp drawn other")]));
    expect(messages(more, "1")).toEqual(["[1/3] CACHED RUN echo $RANDOM$RANDOM > drawn"]);
    const drawn = await inSandbox(first.outcome, "cat /home/user/drawn");
    expect(await inSandbox(more.outcome, "cat /home/user/other")).toBe(drawn);
  });

  test("run again for another owner, another disk size, or with force", async () => {
    const steps = [run("echo $RANDOM$RANDOM > drawn"), run("cp drawn copy")];
    const [one, two] = steps;
    if (one === undefined || two === undefined) throw new Error("there are two");
    const runsAnew = async (changes: Partial<BuildRequest>) => {
      const built = await build(here.machine, requestOf(steps, changes));
      requireReady(built.outcome);
      return [1, 2].map((step) => !messages(built, String(step))[0]?.includes("CACHED"));
    };
    await runsAnew({});
    expect(await runsAnew({})).toEqual([false, false]);
    expect(await runsAnew({ owner: "another" })).toEqual([true, true]);
    expect(await runsAnew({ diskSizeMB: base.diskSizeMB + 1 })).toEqual([true, true]);
    expect(await runsAnew({ steps: [one, { ...two, force: true }] })).toEqual([false, true]);
    expect(await runsAnew({ force: true })).toEqual([true, true]);
    expect(await runsAnew({})).toEqual([false, false]);
  });
});

describe("a build fails", () => {
  const outcomeOf = async (request: BuildRequest) => (await build(here.machine, request)).outcome;

  test("with the number of its step, the command, its exit code and its last output", async () => {
    const failed = await build(here.machine, requestOf([env(["A", "1"]), run("echo on its way; exit 7"), run("true")]));
    const message = 'the command "echo on its way; exit 7" ended with exit code 7. Its last output:\non its way';
    expect(failed.outcome).toEqual({ isReady: false, step: "2", message });
    expect(failed.entries.at(-1)).toMatchObject({ level: "error", step: "2", message });
    expect(messages(failed, "3")).toEqual([]);
  });

  test("when a step is killed, names an unknown user, or has no working folder", async () => {
    expect(await outcomeOf(requestOf([run("kill -9 $$")]))).toMatchObject({
      step: "1",
      message: 'the command "kill -9 $$" got signal: killed',
    });
    expect(await outcomeOf(requestOf([run("true", "nobody-here")]))).toMatchObject({
      step: "1",
      message: expect.stringContaining("nobody-here"),
    });
    expect(await outcomeOf(requestOf([workdir("/gone"), run("rm -r /gone", "root"), run("true")]))).toMatchObject({
      step: "3",
      message: expect.stringContaining("/gone"),
    });
    expect(await outcomeOf(requestOf([workdir("/etc/passwd")]))).toMatchObject({ step: "1" });
  });

  test("when an upload is missing or incomplete", async () => {
    expect(await outcomeOf(requestOf([run("true"), copy("gone", "a", "b")]))).toMatchObject({
      step: "2",
      message: "there is no file files/gone",
    });
    expect(await outcomeOf(requestOf([copy("broken", "app", "b")]))).toMatchObject({ isReady: false, step: "1" });
  });

  test("when its base is missing", async () => {
    const from = { kind: "template", from: { ...base, image: "gone" }, checkpoint: null, envVars: {} } as const;
    expect(await outcomeOf(requestOf([run("true")], { from }))).toEqual({
      isReady: false,
      step: "base",
      message: 'the image "gone" is not on this machine',
    });
  });

  test("when its sandbox dies", async () => {
    const request = requestOf([
      run("echo b > /proc/sysrq-trigger; kill -9 1; pkill -9 -f keep-guest; sleep 60", "root"),
    ]);
    expect(await outcomeOf(request)).toMatchObject({ isReady: false, step: "1" });
  });
});

test("a step that replaces the guest fails its own build only", async () => {
  const flood = inPlaceOfGuest(
    "threading",
    `
def serve(client):
    try:
        client.sendall(b"HTTP/1.1 200 OK\\r\\ncontent-type: application/connect+json\\r\\n\\r\\n")
        while True: client.sendall(b"\\0\\0\\1\\0\\0" + b"x" * 65536)
    except OSError: pass
while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()`,
  );
  const taking = `cat > /tmp/flood.py <<'END'\n${flood}\nEND\nexec setsid python3 /tmp/flood.py`;
  const [taken, other] = await Promise.all([
    here.machine.build(requestOf([run(taking, "root"), run("true")])),
    here.machine.build(requestOf([run("echo undisturbed > file")])),
  ]);
  expect(taken).toMatchObject({ isReady: false, step: "1" });
  expect(await inSandbox(other, "cat /home/user/file")).toBe("undisturbed");
});

test("endless output is throttled, and dropped when the log is full", async () => {
  const built = await build(
    here.machine,
    requestOf([run("yes $(printf %01000d) | head -c 12000000; echo the end; exit 1")]),
  );
  expect(built.entries.filter(({ level }) => level === "warn").map(({ message }) => message)).toEqual([
    "The log has 10485760 bytes, which is all that is kept: further output is dropped",
  ]);
  expect(built.outcome).toMatchObject({ message: expect.stringContaining("the end") });
});

describe("a build that is cancelled", () => {
  timed("ends with the reason, and with all its processes, within five seconds", async () => {
    const request = requestOf([run("true"), run("setsid sleep 1000 & echo runs; exec sleep 1000")]);
    const reason = "a newer build took its place";
    let tookMs = Number.POSITIVE_INFINITY;
    const { outcome } = await build(here.machine, request, async (line) => {
      if (line !== "runs") return;
      const began = performance.now();
      await here.machine.cancelBuild(request.id, reason);
      tookMs = performance.now() - began;
    });
    expect(outcome).toEqual({ isReady: false, step: "2", message: reason });
    await here.machine.cancelBuild(request.id, "again");
    expect(tookMs).toBeLessThan(5_000);
  });

  test("ends in every phase", async () => {
    for (const delayMs of [0, 20, 80, 140, 180]) {
      const request = requestOf([run(`head -c 20M /dev/urandom > a; echo ${delayMs}`), run("cp a b")]);
      const outcome = here.machine.build(request);
      await Bun.sleep(delayMs);
      await here.machine.cancelBuild(request.id, "enough");
      expect(await outcome).toMatchObject({ isReady: false, message: "enough" });
    }
  });
});

test("a build ends at its time limit", async () => {
  const { outcome } = await build(hurried.machine, requestOf([run("sleep 60")]));
  expect(outcome).toMatchObject({ isReady: false, message: "the build was ended: it took longer than 0.5 s" });
  expect(await settledCensus(hurried.dataFolder, NOTHING)).toEqual(NOTHING);
});

test("concurrent builds are independent, even if they are equal", async () => {
  const same = [run("sleep 0.1; echo same > file"), run("cat file")];
  const requests = [requestOf(same), requestOf(same), requestOf([run("echo other > file")]), requestOf(same)];
  const outcomes = await Promise.all(requests.map((request) => here.machine.build(request)));
  for (const [at, outcome] of outcomes.entries()) {
    expect(await inSandbox(outcome, "cat /home/user/file")).toBe(at === 2 ? "other" : "same");
  }
});
