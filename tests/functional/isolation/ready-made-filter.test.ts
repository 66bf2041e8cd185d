/** The system call filter handed on to the next sandbox equals the one that crun makes from the profile. */
import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { DataFolder } from "../../../src/system/data-folder.ts";
import { sharedServer } from "../../support/shared-server.ts";

const LIFE = { timeoutMs: 600_000 };
const COMPARED = /^(?:NoNewPrivs|Seccomp|Seccomp_filters|Speculation\w+|Cap\w+):.*$/gm;

const server = sharedServer();

test("a later sandbox gets the filter that crun compiled for an earlier one, and is confined alike", async () => {
  const { crunFolder, runFolder } = new DataFolder(server().dataFolder);
  const sandboxes = [];
  // One after the other: of two made at once, neither is the later one.
  for (let nth = 0; nth < 4; nth++) sandboxes.push(await Sandbox.create({ ...server().options, ...LIFE }));
  const cache = join(crunFolder, ".cache/seccomp");
  const compiled = readdirSync(cache).map((name) => readFileSync(join(cache, name)).toString("base64"));
  expect(compiled).toHaveLength(1);

  const specs = sandboxes.map(({ sandboxId }) => {
    const { annotations, linux } = JSON.parse(readFileSync(join(crunFolder, sandboxId, "config.json"), "utf8"));
    return { filter: annotations?.["run.oci.seccomp_bpf_data"], hasProfile: linux.seccomp !== undefined };
  });
  expect(specs.at(-1)).toEqual({ filter: compiled[0], hasProfile: false });
  for (const { filter, hasProfile } of specs) expect(hasProfile ? undefined : compiled[0]).toBe(filter);

  const seen = sandboxes.map(({ sandboxId }) => {
    expect(readFileSync(join(crunFolder, sandboxId, "seccomp.bpf")).toString("base64")).toBe(String(compiled[0]));
    const { pid } = JSON.parse(readFileSync(join(runFolder, "sandboxes", sandboxId, "record.json"), "utf8"));
    return readFileSync(`/proc/${pid}/status`, "utf8").match(COMPARED);
  });
  expect(seen[0]).toContain("Seccomp:\t2");
  expect(seen[0]).toContain("Seccomp_filters:\t1");
  for (const each of seen) expect(each).toEqual(seen[0] ?? null);
});
