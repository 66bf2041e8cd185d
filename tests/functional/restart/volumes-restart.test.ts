/** Volumes across a stop, a crash and `sandlot down`: never mounted twice, nothing lost, nothing left. */
import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { Sandbox, Volume } from "e2b";
import { attempt } from "../../../src/system/command.ts";
import { tagOf } from "../../support/census.ts";
import { startServer, type TestServer, tearDownServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";

const folder = foldersOfFile();
const SETTINGS = { SANDLOT_READY: "0", SANDLOT_VOLUME_SIZE_MB: "64" };

/** Loop devices on files of this data folder's volumes. */
function devices(data: string): string[] {
  return readdirSync("/sys/block").filter((name) => {
    const backing = `/sys/block/${name}/loop/backing_file`;
    try {
      return readFileSync(backing, "utf8").startsWith(`${data}/volumes/`);
    } catch {
      return false;
    }
  });
}

async function contentProcesses(data: string): Promise<number> {
  const found = await attempt(["pgrep", "--full", "--count", `/run/sandlot/${tagOf(data)}/volume-content/program`]);
  return Number(found.stdout);
}

const at = (server: TestServer) => ({ apiUrl: server.url });

test("after a crash a sandbox and the file API continue on a volume that is mounted once", async () => {
  const data = folder("crash");
  const first = await startServer(data, SETTINGS);
  const volume = await Volume.create("kept", first.options);
  const sandbox = await Sandbox.create({ ...first.options, volumeMounts: { "/data": volume } });
  await sandbox.files.write("/data/before", "1");
  expect(await volume.readFile("/before", at(first))).toBe("1");
  await first.crash();
  expect(devices(data)).toHaveLength(1);

  const second = await startServer(data, SETTINGS);
  await until("the content process of the first server ended", async () => (await contentProcesses(data)) === 0);
  const again = await Sandbox.connect(sandbox.sandboxId, second.options);
  await again.files.write("/data/after", "2");
  expect(await volume.readFile("/after", at(second))).toBe("2");
  expect(devices(data)).toHaveLength(1);
  await again.pause();
  await second.stop();
  await until("the volume is let go", () => devices(data).length === 0);

  const third = await startServer(data, SETTINGS);
  const resumed = await Sandbox.connect(sandbox.sandboxId, third.options);
  expect(await resumed.files.read("/data/after")).toBe("2");
  await third.stop();
  await tearDownServer(data);
  await until("the volume is let go", () => devices(data).length === 0);
  await until("its content process ended", async () => (await contentProcesses(data)) === 0);

  // Paused and running sandboxes are gone with the machine; the content of volumes is not.
  const fourth = await startServer(data, SETTINGS);
  const [found] = await Volume.list(fourth.options);
  const reopened = await Volume.connect(found?.volumeId ?? "", fourth.options);
  expect((await reopened.list("/", at(fourth))).map(({ name }) => name)).toEqual(["after", "before"]);
  await fourth.stop();
});
