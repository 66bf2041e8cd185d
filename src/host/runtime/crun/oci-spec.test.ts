import { expect, test } from "bun:test";
import { ociSpec } from "./oci-spec.ts";

test("no two folders are mounted from one place in the same way: CRIU may restore the second without its flags", () => {
  const spec = ociSpec({
    size: { cpuCount: 2, memoryMB: 512, processors: undefined },
    root: "/root-of-sandbox",
    guestFolder: "/guest",
    cgroup: "cgroup",
    meminfoFile: undefined,
    bootIdFile: "/boot-id",
    volumes: [],
    cgroupV1: false,
    controlSecretFile: "/control-secret",
    hostname: "name",
    copy: false,
    openFilesMax: 1024,
    ids: { first: 1_900_065_536 },
  });
  const bound = spec.mounts.filter(({ type }) => type === "bind");
  const ways = bound.map(({ source, options }) => `${source} ${options.join()}`);
  expect(ways.length).toBeGreaterThan(3);
  expect(ways).toEqual([...new Set(ways)]);
});
