import { expect, test } from "bun:test";
import { BASE_TEMPLATE } from "../../../contract/management/base-template.ts";
import { ociSpec } from "./oci-spec.ts";

test("no two folders are mounted from one place in the same way: CRIU may restore the second without its flags", () => {
  const spec = ociSpec({
    kind: { ...BASE_TEMPLATE, templateId: BASE_TEMPLATE.id, image: "image" },
    rootFolder: "/root-of-sandbox",
    guestFolder: "/guest",
    cgroupPath: "cgroup",
    bootIdFile: "/boot-id",
    cgroupV1: false,
    processors: undefined,
    controlSecret: "secret",
    hostname: "name",
    copy: false,
    openFilesMax: 1024,
  });
  const bound = spec.mounts.filter(({ type }) => type === "bind");
  const ways = bound.map(({ source, options }) => `${source} ${options.join()}`);
  expect(ways.length).toBeGreaterThan(3);
  expect(ways).toEqual([...new Set(ways)]);
});
