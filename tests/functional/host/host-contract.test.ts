/** The promises of the Host interface, held by the machine and by the host that only remembers. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { Fault } from "../../../src/contract/fault.ts";
import { BASE_TEMPLATE } from "../../../src/contract/management/base-template.ts";
import { parseList } from "../../../src/host/cgroup/processors.ts";
import type { CreateSandbox, Host, SandboxKind } from "../../../src/host/host.ts";
import { imageFolder } from "../../../src/host/image/image-folder.ts";
import { Machine } from "../../../src/host/machine.ts";
import { BASE_IMAGE, shiftOwners } from "../../../src/host/setup/base-image.ts";
import { guestFolder } from "../../../src/host/setup/guest-folder.ts";
import { applySettings } from "../../../src/host/setup/host-changes.ts";
import { teardown } from "../../../src/host/setup/teardown.ts";
import { attempt } from "../../../src/host/system/command.ts";
import { DataFolder } from "../../../src/host/system/data-folder.ts";
import { Toolbox } from "../../../src/host/system/toolbox.ts";
import { FakeHost } from "../../../src/host/testing/fake-host.ts";
import { census, NOTHING, settledCensus } from "../../support/census.ts";
import { newDataFolder } from "../../support/server.ts";

const CACHE = process.env.SANDLOT_CACHE ?? "/var/cache/sandlot";
const kind: SandboxKind = { ...BASE_TEMPLATE, templateId: BASE_TEMPLATE.id, image: BASE_IMAGE };
const request: CreateSandbox = { kind, envVars: {}, accessTokens: [], internet: true };

interface Subject {
  host: Host;
  /** Ends a sandbox's first process behind the host's back. */
  lose(id: string): Promise<void>;
}

function openMachine(data: DataFolder, readyPerKind: number): Promise<Machine> {
  const folder = guestFolder(new Toolbox(CACHE));
  return Machine.open({ data, cacheFolder: CACHE, guestFolder: folder, resolver: "9.9.9.9", readyPerKind });
}

const dataFolder = newDataFolder("contract");
let data: DataFolder;
let machine: Machine;
beforeAll(async () => {
  mkdirSync(dataFolder, { recursive: true });
  data = new DataFolder(dataFolder);
  data.makeRunFolder();
  applySettings(data);
  machine = await openMachine(data, 0);
});
afterAll(async () => {
  await machine.close();
  await attempt(["umount", `${dataFolder}/disks`]);
  await teardown(data, CACHE, { keepData: false });
});

const subjects: Record<string, () => Subject> = {
  machine: () => ({
    host: machine,
    async lose(id) {
      const { pid } = await Bun.file(`${data.sandboxesFolder}/${id}/record.json`).json();
      process.kill(pid, "SIGKILL");
    },
  }),
  "memory host": () => {
    const host = new FakeHost({ images: [BASE_IMAGE] });
    return { host, lose: async (id) => host.lose(id) };
  },
};

describe.each(Object.keys(subjects))("%s", (name) => {
  const subject = (): Subject => {
    const make = subjects[name];
    if (make === undefined) throw new Error(name);
    return make();
  };

  test("a created sandbox has an id of the documented form and an endpoint", async () => {
    const { host } = subject();
    const { id } = await host.create(request);
    expect(id).toMatch(/^i[a-z0-9]{20}$/);
    expect(host.endpoint(id)?.address).toMatch(/^\d+\.\d+\.\d+\.\d+$/);
    await host.destroy(id);
  });

  test("two sandboxes never share an id", async () => {
    const { host } = subject();
    const made = await Promise.all([host.create(request), host.create(request), host.create(request)]);
    expect(new Set(made.map(({ id }) => id)).size).toBe(3);
    await Promise.all(made.map(({ id }) => host.destroy(id)));
  });

  test("an image that is not on the machine is a 404 that names it", async () => {
    const { host } = subject();
    const refused = host.create({ ...request, kind: { ...kind, image: "no-such-image" } });
    await expect(refused).rejects.toBeInstanceOf(Fault);
    await expect(refused).rejects.toMatchObject({ status: 404, message: expect.stringContaining("no-such-image") });
  });

  test("from the call of destroy on, the endpoint is gone; destroying again or the unknown is success", async () => {
    const { host } = subject();
    const { id } = await host.create(request);
    const ended = host.destroy(id);
    expect(host.endpoint(id)).toBeUndefined();
    await ended;
    await host.destroy(id);
    await host.destroy("i00000000000000000000");
  });

  test("a sandbox that ends by itself is reported once and forgotten", async () => {
    const { host, lose } = subject();
    const { id } = await host.create(request);
    const lost: string[] = [];
    const reported = new Promise<void>((resolve) => {
      host.onLost((which) => {
        lost.push(which);
        resolve();
      });
    });
    await lose(id);
    await reported;
    expect(host.endpoint(id)).toBeUndefined();
    await host.destroy(id);
    expect(lost).toEqual([id]);
  });

  test("what runs is measured, what does not is left out", async () => {
    const { host } = subject();
    const [one, ended] = [await host.create(request), await host.create(request)];
    await host.destroy(ended.id);
    const usages = await host.measure([ended.id, one.id, "i00000000000000000000"]);
    expect([...usages.keys()]).toEqual([one.id]);
    const { memUsed = 0, diskUsed = 0, diskTotal = 0, cpuUsedMs = -1 } = usages.get(one.id) ?? {};
    expect(memUsed).toBeGreaterThan(0);
    expect(diskUsed).toBeGreaterThan(0);
    expect(diskTotal).toBeGreaterThan(diskUsed);
    expect(cpuUsedMs).toBeGreaterThanOrEqual(0);
    await host.destroy(one.id);
  });

  test("adopt keeps what is asked for, ends the rest, and says what is alive", async () => {
    const { host } = subject();
    const kept = await host.create(request);
    const unwanted = await host.create(request);
    const sandboxes = new Set([kept.id, "i99999999999999999999"]);
    const found = await host.adopt({ sandboxes, checkpoints: new Set() });
    expect([...found.sandboxes]).toEqual([kept.id]);
    expect(host.endpoint(kept.id)).toBeDefined();
    expect(host.endpoint(unwanted.id)).toBeUndefined();
    await host.destroy(kept.id);
  });

  test("a paused sandbox has no endpoint and comes back under its id; its checkpoint stays until it is removed", async () => {
    const { host } = subject();
    const { id } = await host.create(request);
    const pausing = host.pause(id, "contract-1", { memory: true });
    expect(host.endpoint(id)).toBeUndefined();
    await pausing;
    expect(host.endpoint(id)).toBeUndefined();
    for (const memory of [true, false]) {
      await host.resume({ ...request, id, checkpoint: "contract-1", memory });
      expect(host.endpoint(id)).toBeDefined();
      await host.destroy(id);
    }
    await host.removeCheckpoint("contract-1");
    await host.removeCheckpoint("contract-1");
    const again = host.resume({ ...request, id, checkpoint: "contract-1", memory: true });
    await expect(again).rejects.toMatchObject({ status: 404, message: expect.stringContaining("contract-1") });
  });

  test("a snapshot lets the sandbox go on, and any number of others begin from it", async () => {
    const { host } = subject();
    const { id } = await host.create(request);
    await host.snapshot(id, "contract-2", { memory: true });
    expect(host.endpoint(id)).toBeDefined();
    const copies = await Promise.all([1, 2].map(() => host.create({ ...request, checkpoint: "contract-2" })));
    expect(new Set([id, ...copies.map((copy) => copy.id)]).size).toBe(3);
    await host.removeCheckpoint("contract-2");
    for (const copy of copies) expect(host.endpoint(copy.id)).toBeDefined();
    await Promise.all([id, ...copies.map((copy) => copy.id)].map((each) => host.destroy(each)));
  });

  test("what does not run cannot be paused or copied, and says so", async () => {
    const { host } = subject();
    const unknown = "i99999999999999999999";
    await expect(host.pause(unknown, "contract-3", { memory: true })).rejects.toMatchObject({ status: 404 });
    await expect(host.snapshot(unknown, "contract-3", { memory: false })).rejects.toMatchObject({ status: 404 });
    const copy = host.create({ ...request, checkpoint: "contract-3" });
    await expect(copy).rejects.toMatchObject({ status: 404 });
  });

  test("adopt keeps the checkpoints that are asked for and removes the rest", async () => {
    const { host } = subject();
    const { id } = await host.create(request);
    await host.snapshot(id, "contract-4", { memory: false });
    await host.pause(id, "contract-5", { memory: false });
    const found = await host.adopt({ sandboxes: new Set(), checkpoints: new Set(["contract-5", "contract-6"]) });
    expect([...found.checkpoints]).toEqual(["contract-5"]);
    await expect(host.create({ ...request, checkpoint: "contract-4" })).rejects.toMatchObject({ status: 404 });
    await host.resume({ ...request, id, checkpoint: "contract-5", memory: true });
    await host.destroy(id);
    await host.removeCheckpoint("contract-5");
  });
});

describe("the machine alone", () => {
  test("nothing is left of what was created and destroyed", async () => {
    expect(await settledCensus(dataFolder, NOTHING)).toEqual(NOTHING);
    const made = await Promise.all(Array.from({ length: 4 }, () => machine.create({ ...request, internet: false })));
    const now = await census(dataFolder);
    expect(now.processes).toBeGreaterThanOrEqual(4);
    expect(now).toMatchObject({
      runFolders: 4,
      disks: 4,
      loopDevices: 4,
      interfaces: 4,
      offlineElements: 4,
      crunRecords: 4,
    });
    // Eight namespaces each, shared with nobody.
    expect(now.namespaces).toBe(4 * 8);
    // The host's own view holds no mount of a running sandbox.
    expect(now.mounts).toBe(0);
    await Promise.all(made.map(({ id }) => machine.destroy(id)));
    expect(await settledCensus(dataFolder, NOTHING)).toEqual(NOTHING);
  });

  test("other users of the machine do not reach a sandbox, root does", async () => {
    const { id } = await machine.create(request);
    const health = `http://${machine.endpoint(id)?.address}:49983/health`;
    const curl = ["curl", "--silent", "--max-time", "1", "--write-out", "%{http_code}", health];
    expect((await attempt(curl)).stdout).toBe("204");
    expect((await attempt(["setpriv", "--reuid=65534", "--clear-groups", ...curl])).stdout).toBe("000");
    await machine.destroy(id);
  });

  test("a boot that fails half-way leaves nothing", async () => {
    const impossible = { ...request, kind: { ...kind, diskSizeMB: 0 } };
    await expect(machine.create(impossible)).rejects.toMatchObject({ status: 500 });
    const silent = { ...request, kind: { ...kind, image: "broken-test" } };
    await withImage("broken-test", { ".sandlot": "a file where the guest folder is to be mounted" }, async () => {
      await expect(machine.create(silent)).rejects.toMatchObject({ status: 500 });
    });
    expect(await settledCensus(dataFolder, NOTHING)).toEqual(NOTHING);
  });

  test("a sandbox with fewer processors than the machine counts just those", async () => {
    const { id } = await machine.create({ ...request, kind: { ...kind, cpuCount: 1 } });
    const { pid } = await Bun.file(`${data.sandboxesFolder}/${id}/record.json`).json();
    const allowed = /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "";
    expect(parseList(allowed)).toHaveLength(1);
    await machine.destroy(id);
  });

  test("an image without anything in it, not even a C library, gets a working guest", async () => {
    await withImage("empty-test", {}, async () => {
      const { id } = await machine.create({ ...request, kind: { ...kind, image: "empty-test", defaultUser: "root" } });
      const health = await fetch(`http://${machine.endpoint(id)?.address}:49983/health`, { keepalive: false });
      expect(health.status).toBe(204);
      await machine.destroy(id);
    });
  });
});

/** An image of these files, for as long as `use` takes. */
async function withImage(name: string, files: Record<string, string>, use: () => Promise<void>): Promise<void> {
  const folder = imageFolder(CACHE, name);
  mkdirSync(folder);
  try {
    for (const [path, content] of Object.entries(files)) await Bun.write(`${folder}/${path}`, content);
    shiftOwners(folder);
    await use();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
