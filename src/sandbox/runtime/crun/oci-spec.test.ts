import { expect, test } from "bun:test";
import { ociSpec, specText } from "./oci-spec.ts";

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

test("the JSON for crun contains exactly the configuration, including the filter", () => {
  const read = JSON.parse(specText(spec));
  expect(read).toEqual(JSON.parse(JSON.stringify(spec)));
  expect(read.linux.seccomp.defaultAction).toBe("SCMP_ACT_ERRNO");
  expect(read.linux.seccomp.syscalls.length).toBeGreaterThan(10);
});

test("a compiled filter replaces its profile, and nothing else changes", () => {
  const { annotations, ...read } = JSON.parse(specText(spec, "AAAAAAAAAAA="));
  expect(annotations).toEqual({ "run.oci.seccomp_bpf_data": "AAAAAAAAAAA=" });
  const { seccomp: _, ...linux } = JSON.parse(JSON.stringify(spec.linux));
  expect(read).toEqual({ ...JSON.parse(JSON.stringify(spec)), linux });
});

test("no folder is mounted twice alike: CRIU may restore the second mount without its flags", () => {
  const bound = spec.mounts.filter(({ type }) => type === "bind");
  const ways = bound.map(({ source, options }) => `${source} ${options.join()}`);
  expect(ways.length).toBeGreaterThan(3);
  expect(ways).toEqual([...new Set(ways)]);
});
