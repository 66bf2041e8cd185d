import { expect, test } from "bun:test";
import type { NewSandbox } from "../runtime.ts";
import { mountedFromOutside, runscSpec, specForRestore } from "./runsc-spec.ts";

const sandbox: NewSandbox = {
  id: "one",
  folder: "/run/one",
  root: "/run/one/root",
  cgroup: "/sandlot/tag/one",
  size: { cpuCount: 2, memoryMB: 512, processors: "0-1" },
  ids: { first: 1_900_065_536 },
  hostname: "name",
  guestFolder: "/guest",
  meminfoFile: undefined,
  bootIdFile: "/run/one/boot-id",
  controlSecretFile: "/run/one/secret",
  volumes: [{ inside: "/data", outside: "/volumes/a" }],
  copy: false,
  openFilesMax: 1024,
  userLimits: [],
};

test("a sandbox has its own ids, size and files, and nothing else of the machine", () => {
  const spec = runscSpec(sandbox);
  expect(spec.linux.uidMappings).toEqual([{ containerID: 0, hostID: 1_900_065_536, size: 65_536 }]);
  expect(spec.linux.resources).toEqual({
    memory: { limit: 512 * 1024 * 1024, swap: 512 * 1024 * 1024 },
    pids: { limit: 8192 },
    cpu: { quota: 200_000, period: 100_000, cpus: "0-1" },
  });
  expect(mountedFromOutside(spec)).toEqual([
    { inside: "/.sandlot", outside: "/guest" },
    { inside: "/.sandlot/secret", outside: "/run/one/secret" },
    { inside: "/data", outside: "/volumes/a" },
  ]);
});

test("the spec of a restore has another place and is equal otherwise", () => {
  const written = runscSpec(sandbox);
  const mounts = [
    { inside: "/.sandlot/secret", outside: "/run/two/secret" },
    { inside: "/data", outside: "/volumes/b" },
  ];
  const place = { id: "two", cgroup: "/sandlot/tag/two", folder: "/run/two", root: "/run/two/root", images: "/images" };
  const size = { cpuCount: 1, memoryMB: 256, processors: undefined };
  const ids = { first: 1_900_131_072 };
  const spec = specForRestore(written, {
    ...place,
    size,
    ids,
    mounts,
    prepared: Promise.resolve(),
    plug: async () => undefined,
  });
  expect(mountedFromOutside(spec)).toEqual([{ inside: "/.sandlot", outside: "/guest" }, ...mounts]);
  expect(spec).toMatchObject({ root: { path: "/run/two/root" }, process: written.process, hostname: "name" });
  expect(spec.linux).toMatchObject({
    cgroupsPath: "/sandlot/tag/two",
    gidMappings: [{ hostID: ids.first }],
    resources: { memory: { limit: 256 * 1024 * 1024 }, cpu: { quota: 100_000, period: 100_000 } },
  });
});
