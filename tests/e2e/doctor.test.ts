/** The doctor tests by doing, says one line for each prerequisite, and leaves nothing behind. */
import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { attempt } from "../../src/host/command.ts";
import { newDataFolder, serverEnv } from "../server.ts";

const MAIN = `${import.meta.dir}/../../src/cli/main.ts`;
const NAMES = [
  ...["root", "kernel", "namespaces", "cgroups", "overlayfs", "reflink pool", "nftables", "forwarding", "inotify"],
  ...["processes", "open files", "disk", "commands", "crun", "runsc", "CRIU"],
];

/** With these files laid over by an empty one, as if they were not installed: in a mount namespace of the command's own. */
async function doctor(dataFolder: string, hidden: string[] = []) {
  const hide = hidden.map((path) => `mount --bind /dev/null ${path} && `).join("");
  const command = ["unshare", "--mount", "sh", "-c", `${hide} exec "$@"`, "sh", process.execPath, MAIN, "doctor"];
  return await attempt(command, { env: serverEnv(dataFolder), timeoutMs: 55_000 });
}

test("on a machine that can run sandboxes, every line is ok or degraded, and CRIU has moved a real sandbox", async () => {
  const dataFolder = newDataFolder("doctor");
  const { exitCode, stdout } = await doctor(dataFolder);
  expect(exitCode).toBe(0);
  const lines = stdout
    .trim()
    .split("\n")
    .filter((line) => !line.includes("FIX:"));
  expect(lines.map((line) => /^(?:ok|degraded)\s+(.*?):/.exec(line)?.[1])).toEqual(NAMES);
  expect(lines.at(-1)).toMatch(
    /^ok +CRIU: version [\d.]+; a sandbox with a listening socket, an inotify watch and a terminal/,
  );
  expect(readdirSync(dataFolder)).toEqual([]);
});

test("what is missing is broken, with the exact fix, and the exit code says so", async () => {
  const nft = Bun.which("nft") ?? "";
  const dataFolder = newDataFolder("doctor-broken");
  const before = readdirSync("/run/sandlot");
  const { exitCode, stdout } = await doctor(dataFolder, [nft]);
  expect(exitCode).toBe(1);
  expect(stdout).toMatch(/^broken +nftables: /m);
  expect(stdout).toMatch(/^broken +commands: missing: nft\n +FIX: apt-get install nftables$/m);
  expect(readdirSync(dataFolder)).toEqual([]);
  expect(readdirSync("/run/sandlot")).toEqual(before);
});

test("without root it says so", async () => {
  const command = ["setpriv", "--reuid=65534", "--clear-groups", process.execPath, MAIN, "doctor"];
  const { exitCode, stderr } = await attempt(command, { env: serverEnv(newDataFolder("doctor-user")) });
  expect(exitCode).toBe(1);
  expect(stderr).toContain("this needs root. FIX: sudo npm start");
});
