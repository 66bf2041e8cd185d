/**
 * The contract of the Host interface, tested on the real machine and on the fake host. Both are behind a wire that
 * carries only JSON, so that a remote machine could keep the contract too.
 */
import { describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { Fault } from "../../../src/contract/fault.ts";
import type { BuildRequest, CreateSandbox, Endpoint, Host, HostEvent } from "../../../src/contract/internal/host.ts";
import { FakeHost } from "../../../src/host/testing/fake-host.ts";
import { serialised } from "../../../src/host/testing/serialised-host.ts";
import { imageFolder } from "../../../src/images/image-folder.ts";
import { BASE_IMAGE, shiftOwners } from "../../../src/setup/base-image.ts";
import { parseList } from "../../../src/system/cgroup/processors.ts";
import { attempt } from "../../../src/system/command.ts";
import { requestOf, requireReady, run } from "../../support/building.ts";
import { CACHE } from "../../support/cache.ts";
import { census, NOTHING, settledCensus } from "../../support/census.ts";
import { ask, startPython } from "../../support/inside.ts";
import { request as closed, MachineOfFile } from "../../support/machine-of-file.ts";

const request: CreateSandbox = { ...closed, egress: "open" };
const { kind } = request;

/** A listener that keeps a table of the events it receives. */
class ReceivedEvents {
  readonly endpoints = new Map<string, Endpoint>();
  readonly lost: string[] = [];
  readonly events: HostEvent[] = [];
  #changed = Promise.withResolvers<void>();

  take(event: HostEvent): void {
    this.events.push(event);
    if (event.kind === "inventory") {
      this.endpoints.clear();
      for (const { id, endpoint } of event.reachable) this.endpoints.set(id, endpoint);
    }
    if (event.kind === "reachable") this.endpoints.set(event.id, event.endpoint);
    if (event.kind === "unreachable") this.endpoints.delete(event.id);
    if (event.kind === "lost") this.lost.push(event.id);
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }

  async until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await this.#changed.promise;
  }
}

interface Subject {
  host: Host;
  /** Ends a sandbox's first process behind the host's back. */
  lose(id: string): Promise<void>;
}

const here = new MachineOfFile("contract");

const bare: Record<string, () => Subject> = {
  machine: () => ({
    host: here.machine,
    async lose(id) {
      const { pid } = await Bun.file(`${here.data.sandboxesFolder}/${id}/record.json`).json();
      process.kill(pid, "SIGKILL");
    },
  }),
  "fake host": () => {
    const host = new FakeHost({ images: [BASE_IMAGE] });
    const built = host.buildAs;
    const sleeps = ({ steps }: BuildRequest) =>
      steps.some((step) => step.type === "run" && step.command.startsWith("sleep"));
    host.buildAs = (wanted) => (sleeps(wanted) ? new Promise(() => undefined) : built(wanted));
    return { host, lose: async (id) => host.lose(id) };
  },
};

/** The machine behind the wire alone: as it is, all other tests of this folder use it. */
const subjects: Record<string, () => Subject> = {};
for (const [name, make] of Object.entries(bare)) {
  subjects[`${name} behind a wire`] = () => {
    const { host, lose } = make();
    return { host: serialised(host), lose };
  };
}

/** Measures how many processors two busy programs get in a second. A busy machine gives less, never more. */
const PROCESSOR_SHARE = `
import os, socket, time
begun = time.time()
for _ in range(2):
    if os.fork() == 0:
        while time.time() < begun + 1: pass
        os._exit(0)
for _ in range(2): os.wait()
share = sum(os.times()[:4]) / (time.time() - begun)
client, _ = socket.create_server(("0.0.0.0", 4567)).accept()
client.makefile().readline()
client.sendall(str(share).encode())`;

describe.each(Object.keys(subjects))("%s", (name) => {
  const subject = (): Subject & { received: ReceivedEvents } => {
    const make = subjects[name];
    if (make === undefined) throw new Error(name);
    const { host, lose } = make();
    const received = new ReceivedEvents();
    host.events((event) => received.take(event));
    return { host, lose, received };
  };

  test("create returns an id of the documented form after its endpoint was announced", async () => {
    const { host, received } = subject();
    const { id } = await host.create(request);
    expect(id).toMatch(/^i[a-z0-9]{20}$/);
    const endpoint = { host: expect.stringMatching(/^\d+\.\d+\.\d+\.\d+$/), runtimePort: 49_983, ownPorts: true };
    expect(received.endpoints.get(id)).toEqual(endpoint);
    await host.destroy(id);
  });

  test("a new listener replaces the earlier one, and gets the inventory first", async () => {
    const { host, received: first } = subject();
    const { id } = await host.create(request);
    const second = new ReceivedEvents();
    host.events((event) => second.take(event));
    expect(second.events).toMatchObject([{ kind: "inventory", reachable: [{ id }] }]);
    await host.destroy(id);
    expect([first.endpoints.has(id), second.endpoints.has(id)]).toEqual([true, false]);
  });

  test("forward returns nothing for a closed port or a sandbox that is not running", async () => {
    const { host } = subject();
    const { id } = await host.create(request);
    expect(await host.forward(id, 4_321)).toBeUndefined();
    await host.destroy(id);
    expect(await host.forward(id, 4_321)).toBeUndefined();
  });

  test("a reply about a log that the host did not ask for is ignored", async () => {
    const { host, received } = subject();
    const before = received.events.length;
    await host.requestLog("i00000000000000000000", "journal:1");
    await host.deferLog("i00000000000000000000");
    expect(received.events.slice(before)).toEqual([]);
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

  test("destroy makes a sandbox unreachable at once; destroying it again, or an unknown one, succeeds", async () => {
    const { host, received } = subject();
    const { id } = await host.create(request);
    const ended = host.destroy(id);
    expect(received.endpoints.has(id)).toBe(false);
    await ended;
    await host.destroy(id);
    await host.destroy("i00000000000000000000");
  });

  test("a sandbox that ends by itself is reported once and forgotten", async () => {
    const { host, lose, received } = subject();
    const { id } = await host.create(request);
    await lose(id);
    await received.until(() => received.lost.length > 0);
    expect(received.endpoints.has(id)).toBe(false);
    await host.destroy(id);
    expect(received.lost).toEqual([id]);
    const kinds = received.events.flatMap((event) => (event.kind.startsWith("log") ? [] : event.kind));
    expect(kinds.slice(1)).toEqual(["reachable", "unreachable", "lost"]);
  });

  test("setEgress changes a running sandbox any number of times, and fails for an ended one", async () => {
    const { host } = subject();
    const { id } = await host.create(request);
    const denied = { allowRanges: ["1.1.1.1/32"], allowNames: ["a.test"], denyRanges: ["0.0.0.0/0"], proxy: null };
    await Promise.all([denied, "closed" as const, denied, "open" as const].map((egress) => host.setEgress(id, egress)));
    await host.destroy(id);
    for (const gone of [id, "i00000000000000000000"]) {
      const refused = host.setEgress(gone, "open");
      await expect(refused).rejects.toMatchObject({ status: 404, message: expect.stringContaining(gone) });
    }
  });

  test("measure returns running sandboxes only", async () => {
    const { host } = subject();
    const [one, ended] = [await host.create(request), await host.create(request)];
    await host.destroy(ended.id);
    const usages = await host.measure([ended.id, one.id, "i00000000000000000000"]);
    expect(Object.keys(usages)).toEqual([one.id]);
    const { memUsed = 0, diskUsed = 0, diskTotal = 0, cpuUsedMs = -1 } = usages[one.id] ?? {};
    expect(memUsed).toBeGreaterThan(0);
    expect(diskUsed).toBeGreaterThan(0);
    expect(diskTotal).toBeGreaterThan(diskUsed);
    expect(cpuUsedMs).toBeGreaterThanOrEqual(0);
    const times = await host.processorTimes([ended.id, one.id, "i00000000000000000000"]);
    expect(Object.keys(times)).toEqual([one.id]);
    expect(times[one.id]).toBeGreaterThanOrEqual(cpuUsedMs);
    await host.destroy(one.id);
  });

  test("adopt keeps the named sandboxes, ends the rest, and returns those alive", async () => {
    const { host, received } = subject();
    const kept = await host.create(request);
    const unwanted = await host.create(request);
    const sandboxes = [kept.id, "i99999999999999999999"];
    const found = await host.adopt({ sandboxes, checkpoints: [] });
    expect(found.sandboxes).toEqual([kept.id]);
    expect(received.endpoints.has(kept.id)).toBe(true);
    expect(received.endpoints.has(unwanted.id)).toBe(false);
    await host.destroy(kept.id);
  });

  test("a paused sandbox is not reachable and comes back under its id; its checkpoint stays until it is removed", async () => {
    const { host, received } = subject();
    const { id } = await host.create(request);
    const pausing = host.pause(id, "contract-1", { memory: true });
    expect(received.endpoints.has(id)).toBe(false);
    await pausing;
    expect(received.endpoints.has(id)).toBe(false);
    for (const memory of [true, false]) {
      await host.resume({ ...request, id, checkpoint: "contract-1", memory });
      expect(received.endpoints.has(id)).toBe(true);
      await host.destroy(id);
    }
    await host.removeCheckpoint("contract-1");
    await host.removeCheckpoint("contract-1");
    const again = host.resume({ ...request, id, checkpoint: "contract-1", memory: true });
    await expect(again).rejects.toMatchObject({ status: 404, message: expect.stringContaining("contract-1") });
  });

  test("after a failed pause the sandbox is reachable again", async () => {
    const { host, received } = subject();
    const { id } = await host.create(request);
    await host.snapshot(id, "contract-7", { memory: false });
    await expect(host.pause(id, "contract-7", { memory: false })).rejects.toBeInstanceOf(Fault);
    expect(received.endpoints.has(id)).toBe(true);
    await host.destroy(id);
    await host.removeCheckpoint("contract-7");
  });

  test("a snapshot leaves the sandbox running, and any number of others start from it", async () => {
    const { host, received } = subject();
    const { id } = await host.create(request);
    await host.snapshot(id, "contract-2", { memory: true });
    expect(received.endpoints.has(id)).toBe(true);
    const copies = await Promise.all([1, 2].map(() => host.create({ ...request, checkpoint: "contract-2" })));
    expect(new Set([id, ...copies.map((copy) => copy.id)]).size).toBe(3);
    await host.removeCheckpoint("contract-2");
    for (const copy of copies) expect(received.endpoints.has(copy.id)).toBe(true);
    await Promise.all([id, ...copies.map((copy) => copy.id)].map((each) => host.destroy(each)));
  });

  test("volumes are made and removed any number of times, and a copy with memory keeps its original's", async () => {
    const { host } = subject();
    for (let times = 0; times < 2; times++) await host.createVolume("contract", 64);
    const volumes = [{ volume: "contract", path: "/data" }];
    const { id } = await host.create({ ...request, volumes });
    await host.snapshot(id, "contract-7", { memory: true });
    const { id: copy } = await host.create({ ...request, checkpoint: "contract-7", volumes });
    const others = host.create({ ...request, checkpoint: "contract-7" });
    await expect(others).rejects.toMatchObject({ status: 422, message: expect.stringContaining("volumes") });
    const unknown = host.create({ ...request, volumes: [{ volume: "nothing", path: "/data" }] });
    await expect(unknown).rejects.toMatchObject({ status: 422, message: expect.stringContaining('"nothing"') });
    await Promise.all([id, copy].map((each) => host.destroy(each)));
    await host.removeCheckpoint("contract-7");
    for (let times = 0; times < 2; times++) await host.removeVolume("contract");
  });

  test("pause and snapshot of a sandbox that is not running are 404", async () => {
    const { host } = subject();
    const unknown = "i99999999999999999999";
    await expect(host.pause(unknown, "contract-3", { memory: true })).rejects.toMatchObject({ status: 404 });
    await expect(host.snapshot(unknown, "contract-3", { memory: false })).rejects.toMatchObject({ status: 404 });
    const copy = host.create({ ...request, checkpoint: "contract-3" });
    await expect(copy).rejects.toMatchObject({ status: 404 });
  });

  test("adopt keeps the named checkpoints and removes the rest", async () => {
    const { host } = subject();
    const { id } = await host.create(request);
    await host.snapshot(id, "contract-4", { memory: false });
    await host.pause(id, "contract-5", { memory: false });
    const found = await host.adopt({ sandboxes: [], checkpoints: ["contract-5", "contract-6"] });
    expect(found.checkpoints).toEqual(["contract-5"]);
    await expect(host.create({ ...request, checkpoint: "contract-4" })).rejects.toMatchObject({ status: 404 });
    await host.resume({ ...request, id, checkpoint: "contract-5", memory: true });
    await host.destroy(id);
    await host.removeCheckpoint("contract-5");
  });

  test("sandboxes can be created from a build", async () => {
    const { host, received } = subject();
    const from = { kind: "template", from: kind, checkpoint: null, envVars: { A: "1" } } as const;
    const outcome = await host.build(requestOf([], { from }));
    expect(outcome).toMatchObject({ isReady: true, defaultUser: "user", envVars: { A: "1" }, checkpoint: null });
    const { id } = await host.create({ ...request, kind: { ...kind, image: requireReady(outcome).image } });
    expect(received.endpoints.has(id)).toBe(true);
    await host.destroy(id);
    // The build's own sandboxes were not announced.
    const reported = received.events.flatMap((event) => (event.kind === "reachable" ? [event.id] : []));
    expect(reported).toEqual([id]);
  });

  test("the layers of an owner are removed any number of times, and the next build does not find them", async () => {
    const { host } = subject();
    const ofOwner = (owner: string) => requestOf([run("true")], { owner });
    const layerBytes = async () => (await host.collectImages([kind.image])).layerBytes;
    const before = await layerBytes();
    requireReady(await host.build(ofOwner("leaves")));
    expect(await layerBytes()).toBeGreaterThan(before);
    await host.removeLayers("unknown");
    expect(await layerBytes()).toBeGreaterThan(before);
    for (let times = 0; times < 2; times++) await host.removeLayers("leaves");
    expect(await layerBytes()).toBe(before);
  });

  test("a cancelled build ends with the reason; cancelling it again, or an unknown one, succeeds", async () => {
    const { host } = subject();
    const wanted = requestOf([run("sleep 1000")]);
    const outcome = host.build(wanted);
    await host.cancelBuild(wanted.id, "a newer one took its place");
    expect(await outcome).toMatchObject({ isReady: false, message: "a newer one took its place" });
    await host.cancelBuild(wanted.id, "again");
    await host.cancelBuild("unknown", "again");
  });
});

describe("the machine alone", () => {
  test("nothing is left of destroyed sandboxes", async () => {
    expect(await settledCensus(here.dataFolder, NOTHING)).toEqual(NOTHING);
    const made = await Promise.all(
      Array.from({ length: 4 }, () => here.machine.create({ ...request, egress: "closed" })),
    );
    const now = await census(here.dataFolder);
    expect(now.processes).toBeGreaterThanOrEqual(4);
    expect(now).toMatchObject({
      runFolders: 4,
      disks: 4,
      loopDevices: 4,
      interfaces: 4,
      ruledSlots: 4,
      crunRecords: 4,
    });
    // Eight namespaces each, none of them shared.
    expect(now.namespaces).toBe(4 * 8);
    // The host's own view holds no mount of a running sandbox.
    expect(now.mounts).toBe(0);
    await Promise.all(made.map(({ id }) => here.machine.destroy(id)));
    expect(await settledCensus(here.dataFolder, NOTHING)).toEqual(NOTHING);
  });

  test("only root on this machine can connect to a sandbox", async () => {
    const { id } = await here.machine.create(request);
    const health = `http://${here.machine.addressOf(id)}:49983/health`;
    const curl = (seconds: number) =>
      `curl --silent --max-time ${seconds} --write-out %{http_code} ${health}`.split(" ");
    expect((await attempt(curl(20))).stdout).toBe("204");
    expect((await attempt(["setpriv", "--reuid=65534", "--clear-groups", ...curl(1)])).stdout).toBe("000");
    await here.machine.destroy(id);
  });

  test("a boot that fails half-way leaves nothing", async () => {
    const impossible = { ...request, kind: { ...kind, diskSizeMB: 0 } };
    await expect(here.machine.create(impossible)).rejects.toMatchObject({ status: 500 });
    const silent = { ...request, kind: { ...kind, image: "broken-test" } };
    await withImage("broken-test", { ".sandlot": "a file where the guest folder is to be mounted" }, async () => {
      await expect(here.machine.create(silent)).rejects.toMatchObject({ status: 500 });
    });
    expect(await settledCensus(here.dataFolder, NOTHING)).toEqual(NOTHING);
  });

  test("a sandbox with fewer processors than the machine sees and uses only those", async () => {
    const { id } = await here.machine.create({ ...request, kind: { ...kind, cpuCount: 1 } });
    const { pid } = await Bun.file(`${here.data.sandboxesFolder}/${id}/record.json`).json();
    const allowed = /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "";
    expect(parseList(allowed)).toHaveLength(1);
    await startPython(here.machine, id, PROCESSOR_SHARE);
    const share = Number(await ask(here.machine, id, 4567));
    expect(share).toBeGreaterThan(0);
    expect(share).toBeLessThan(1.2);
    await here.machine.destroy(id);
  });

  test("an empty image, without a C library, has a working guest", async () => {
    await withImage("empty-test", {}, async () => {
      const { id } = await here.machine.create({
        ...request,
        kind: { ...kind, image: "empty-test", defaultUser: "root" },
      });
      const health = await fetch(`http://${here.machine.addressOf(id)}:49983/health`, { keepalive: false });
      expect(health.status).toBe(204);
      await here.machine.destroy(id);
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
