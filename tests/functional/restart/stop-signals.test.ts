/** Ctrl-C and `systemctl stop` signal every process of the server; it still shuts down in order and logs no problem. */
import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox, Volume } from "e2b";
import { systemCode } from "../../../src/base/system-code.ts";
import { freePort } from "../../../src/base/testing/free-port.ts";
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { CACHE } from "../../support/cache.ts";
import { tagOf } from "../../support/census.ts";
import { tearDownServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";

const folder = foldersOfFile();
const SANDLOT = join(import.meta.dir, "../../../bin/sandlot");
const PROCESSES_MAX = 1000;
/** Helpers have it from the server. */
const TIME_FACTOR = "2";

/** Starts it as a user does, in its own process group. */
async function started(data: string) {
  const url = `http://127.0.0.1:${freePort()}`;
  const settings = {
    SANDLOT_LISTEN: url.slice("http://".length),
    SANDLOT_READY: "1",
    SANDLOT_VOLUME_SIZE_MB: "64",
    SANDLOT_TIME_FACTOR: TIME_FACTOR,
  };
  const child = Bun.spawn(["node", SANDLOT, "up"], {
    env: serverEnv(data, settings),
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  let output = "";
  const read = async (stream: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder();
    for await (const chunk of stream) output += decoder.decode(chunk, { stream: true });
  };
  void read(child.stdout);
  void read(child.stderr);
  await until(
    () => `the server is ready: ${output}`,
    () => output.includes("Sandlot is ready"),
  );
  const apiKey = readFileSync(join(data, "api-key"), "utf8").trim();
  return { child, url, options: { apiUrl: url, sandboxUrl: url, apiKey }, output: () => output };
}

/** This process and its descendants except those of sandboxes: what systemd finds in the cgroup of a service. */
function processesOf(pid: number): number[] {
  const found = [pid];
  for (let at = 0; at < found.length && found.length < PROCESSES_MAX; at++) {
    const children = textOf(`/proc/${found[at]}/task/${found[at]}/children`).trim().split(" ").filter(Boolean);
    found.push(...children.map(Number).filter((child) => !textOf(`/proc/${child}/cgroup`).includes(":/sandlot/")));
  }
  return found;
}

/** The server's process, a child of the one that was started. */
function serverOf(pid: number): number {
  const [, own = 0] = processesOf(pid);
  return own;
}

function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if (systemCode(error) !== "ESRCH") throw error;
  }
}

test("repeated signals to all processes of the server cause one orderly stop", async () => {
  const data = folder("stop-signals");
  let sandboxId: string | undefined;
  const stops: Record<string, (pid: number) => void> = {
    "Ctrl-C": (pid) => signal(-pid, "SIGINT"),
    "systemctl stop": (pid) => {
      for (const each of processesOf(pid)) signal(each, "SIGTERM");
    },
  };
  for (const [how, stop] of Object.entries(stops)) {
    const server = await started(data);
    // With it run CRIU, which stays, and a process for the content of a volume.
    const sandbox = await (sandboxId === undefined
      ? Sandbox.create(server.options)
      : Sandbox.connect(sandboxId, server.options));
    sandboxId = sandbox.sandboxId;
    await sandbox.pause();
    await Sandbox.connect(sandboxId, server.options);
    const { stdout: ignored } = await sandbox.commands.run("grep SigIgn /proc/self/status /proc/1/status");
    expect(ignored).not.toMatch(/SigIgn:\s*\S*[4567c-f]00[1-7]$/m);
    const volume = await Volume.create(how.replaceAll(/\W/g, ""), server.options);
    await volume.writeFile("/file", "1", { apiUrl: server.url });

    // While the edge is stopped, the server cannot finish its shutdown, so all of these signals arrive during it.
    const own = serverOf(server.child.pid);
    const running = (program: string) =>
      processesOf(own).filter((pid) => textOf(`/proc/${pid}/cmdline`).includes(`/${program}.js`));
    const edge = running("edge");
    for (const program of ["edge", "relay", ".content"]) {
      expect(running(program)).not.toEqual([]);
      for (const pid of running(program)) {
        expect(textOf(`/proc/${pid}/environ`)).toContain(`SANDLOT_TIME_FACTOR=${TIME_FACTOR}\0`);
      }
    }
    for (const pid of edge) signal(pid, "SIGSTOP");
    for (let times = 0; times < 3; times++) {
      stop(server.child.pid);
      await until(
        "the server has taken the signal",
        () => !/^S[a-z]*Pnd:\t0*[1-9a-f]/m.test(textOf(`/proc/${own}/status`)),
      );
    }
    for (const pid of edge) signal(pid, "SIGCONT");
    expect({ how, exitCode: await server.child.exited }).toEqual({ how, exitCode: 0 });
    expect(server.output()).toContain("sandlot: stopped");
    expect(server.output().match(/^.*"level":"(?:warn|error)".*$/gm)).toBeNull();
    expect(existsSync(join(data, "store.sqlite-wal"))).toBe(false);
  }
  const marks = () =>
    ["guests/in-use", "images/.in-use"].flatMap((folder) =>
      readdirSync(join(CACHE, folder)).filter((name) => name.endsWith(`.${tagOf(data)}`)),
    );
  // Marks of its guest, its base and the tool that fetches images.
  expect(marks()).toHaveLength(3);
  await tearDownServer(data);
  expect(marks()).toEqual([]);
});
