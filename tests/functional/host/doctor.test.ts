/** The doctor tests each prerequisite by using it, prints one line for each, and leaves nothing behind. */
import { expect, test } from "bun:test";
import { mkdirSync, readdirSync } from "node:fs";
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { imageFolder } from "../../../src/images/image-folder.ts";
import { allChecks } from "../../../src/setup/doctor/doctor.ts";
import { attempt } from "../../../src/system/command.ts";
import { CACHE } from "../../support/cache.ts";
import { newDataFolder, startServer, tearDownServer } from "../../support/server.ts";

const MAIN = `${import.meta.dir}/../../../src/cli/main.ts`;
const NAMES = allChecks({ dataFolder: "/d", cacheFolder: "/c", guestFolder: "/g" }).map(({ name }) => name);

/** Runs the command after these shell commands, in its own mount namespace. */
async function sandlot(command: string, dataFolder: string, before = "true") {
  const argv = ["unshare", "--mount", "sh", "-c", `${before} && exec "$@"`, "sh", process.execPath, MAIN, command];
  return await attempt(argv, { env: serverEnv(dataFolder), timeoutMs: 110_000 });
}

test("on a machine that can run sandboxes, every line is ok or degraded, and CRIU has moved a real sandbox", async () => {
  const dataFolder = newDataFolder("doctor");
  const { exitCode, stdout } = await sandlot("doctor", dataFolder);
  expect(exitCode).toBe(0);
  const lines = stdout
    .trim()
    .split("\n")
    .filter((line) => !line.includes("FIX:"));
  expect(lines.map((line) => /^(?:ok|degraded)\s+(.*?):/.exec(line)?.[1])).toEqual(NAMES);
  expect(lines[NAMES.indexOf("private networks")]).toMatch(/^ok +private networks: closed to all sandboxes$/);
  expect(lines[NAMES.indexOf("TLS")]).toMatch(/^ok +TLS: no certificate, so plain HTTP only$/);
  expect(lines[NAMES.indexOf("CRIU")]).toMatch(
    /^ok +CRIU: version [\d.]+; a sandbox with a listening socket, an inotify watch and a terminal/,
  );
  expect(readdirSync(dataFolder)).toEqual([]);
});

test("a missing program is broken, with the exact fix and exit code 1", async () => {
  const nft = Bun.which("nft") ?? "";
  const dataFolder = newDataFolder("doctor-broken");
  // Its own, for other servers of this machine come and go in the common one.
  const runRoot = newDataFolder("doctor-run-root");
  mkdirSync(runRoot, { recursive: true });
  const ownRunRoot = `mkdir -p /run/sandlot && mount --bind ${runRoot} /run/sandlot`;
  const { exitCode, stdout } = await sandlot("doctor", dataFolder, `${ownRunRoot} && mount --bind /dev/null ${nft}`);
  expect(exitCode).toBe(1);
  expect(stdout).toMatch(/^broken +nftables: /m);
  expect(stdout).toMatch(/^broken +commands: missing: nft\n +FIX: apt-get install nftables$/m);
  expect(readdirSync(dataFolder)).toEqual([]);
  expect(readdirSync(runRoot)).toEqual([]);
});

test("without mapped owners of files, the doctor names the loss and the fix", async () => {
  const [dataFolder, layers] = [newDataFolder("doctor-unmapped"), newDataFolder("doctor-layers")];
  const images = imageFolder(CACHE, "");
  const options = `lowerdir=${images},upperdir=${layers}/upper,workdir=${layers}/work,index=on,nfs_export=on`;
  // An overlay is a filesystem that the kernel does not map.
  const before = [
    `mkdir -p ${layers} && mount -t tmpfs none ${layers} && mkdir ${layers}/upper ${layers}/work`,
    `mount -t overlay overlay -o ${options} ${images}`,
  ].join(" && ");
  const { exitCode, stdout } = await sandlot("doctor", dataFolder, before);
  expect(stdout).toMatch(
    /^degraded user ids: owners of files cannot be mapped: .*; lost: all sandboxes share their ids, .*\n +FIX: use Linux 5\.19/m,
  );
  expect(exitCode).toBe(0);
});

// Guards against running the doctor only once for each kernel.
test("a start without cgroups fails with the fix", async () => {
  const dataFolder = newDataFolder("no-cgroups");
  // By now the doctor has found that this machine can run sandboxes.
  await (await startServer(dataFolder, { SANDLOT_READY: "0" })).stop();
  const { exitCode, stdout, stderr } = await sandlot("up", dataFolder, "umount --lazy /sys/fs/cgroup");
  await tearDownServer(dataFolder);
  expect(exitCode).toBe(1);
  expect(stdout + stderr).toMatch(/^broken +cgroups: none are mounted below \/sys\/fs\/cgroup\n +FIX: mount /m);
});

test("without root the doctor says so", async () => {
  const command = ["setpriv", "--reuid=65534", "--clear-groups", process.execPath, MAIN, "doctor"];
  const { exitCode, stderr } = await attempt(command, { env: serverEnv(newDataFolder("doctor-user")) });
  expect(exitCode).toBe(1);
  expect(stderr).toContain("this needs root. FIX: run it with sudo");
});
