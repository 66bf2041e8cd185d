/** docs/templates.md lists the code's limits and step types, and how each instruction is treated. */
import { expect, test } from "bun:test";
import { BUILD_READY_DEFAULT_MS, LAYERS_KEPT_MS, LAYERS_MAX_BYTES } from "../../src/builder/open-builds.ts";
import { READY_MAX } from "../../src/cli/settings/config.ts";
import { SETTINGS } from "../../src/cli/settings/settings.ts";
import {
  CPU_COUNT_MAX,
  CPU_COUNT_MIN,
  DISK_SIZE_DEFAULT_MB,
  MEMORY_MAX_MB,
  MEMORY_MIN_MB,
} from "../../src/contract/management/limits.ts";
import { parseSteps } from "../../src/control/builds/build-steps.ts";
import {
  UPLOADS_AT_ONCE_PER_TEAM,
  UPLOADS_PER_TEAM_MAX,
  UPLOADS_PER_TEAM_MAX_BYTES,
} from "../../src/control/builds/uploads.ts";
import { parseDockerfile } from "../../src/control/dockerfile/dockerfile.ts";
import { DOCKERFILE_INSTRUCTIONS_MAX, DOCKERFILE_MAX_BYTES } from "../../src/control/dockerfile/instructions.ts";
import { UNPACK_DEPTH_MAX, UNPACK_ENTRIES_MAX } from "../../src/guest/programs/copy-plan.ts";
import { IMAGE_LEVELS_MAX } from "../../src/images/images.ts";
import { tableRows } from "./markdown.ts";
import { readText } from "./source-files.ts";

const page = readText("docs/templates.md");
const words = (cell = "") => cell.split(", ");

test("has the bounds, and the settings that change them", () => {
  const rows = tableRows(page, ["What", "Bound", "Setting"]);
  for (const { Bound = "", Setting = "" } of rows.filter(({ Setting }) => Setting !== "")) {
    const [, setting] = Object.entries(SETTINGS).find(([variable]) => variable === Setting) ?? [];
    expect([Setting, Bound.match(/^\d+/)?.[0]]).toEqual([Setting, setting?.default ?? ""]);
  }
  expect(rows.filter(({ Setting }) => Setting === "").map(({ Bound }) => Bound)).toEqual([
    `${IMAGE_LEVELS_MAX}`,
    `${UNPACK_ENTRIES_MAX} entries, ${UNPACK_DEPTH_MAX} folders deep`,
    `${UPLOADS_AT_ONCE_PER_TEAM} at once; ${UPLOADS_PER_TEAM_MAX} and ${UPLOADS_PER_TEAM_MAX_BYTES / 1024 ** 3} GiB kept, for a day after their last use`,
    `${DOCKERFILE_MAX_BYTES} bytes, ${DOCKERFILE_INSTRUCTIONS_MAX} instructions`,
    `${CPU_COUNT_MIN} to ${CPU_COUNT_MAX}, ${MEMORY_MIN_MB} to ${MEMORY_MAX_MB} MiB`,
    `${DISK_SIZE_DEFAULT_MB / 1024} GiB; takes only the space that is written`,
  ]);
});

test.each([
  `the build waits for ${BUILD_READY_DEFAULT_MS / 1000} seconds`,
  `${LAYERS_KEPT_MS / 86_400_000} days after their last use; the least recently used beyond ${LAYERS_MAX_BYTES / 1024 ** 3} GiB`,
  `a number, up to ${READY_MAX}`,
])("says so: %s", (sentence) => {
  expect(page.replace(/\s+/g, " ")).toContain(sentence);
});

test("has the types of steps", () => {
  const types = tableRows(page, ["Type", "Arguments", "What it does"]).flatMap(({ Type }) => words(Type));
  const known = () => parseSteps("team", [{ type: "NONE", args: [] }], 1);
  expect(known).toThrow("known types are COPY, ADD, RUN, ENV, ARG, WORKDIR and USER");
  expect(types.toSorted()).toEqual(["ADD", "ARG", "COPY", "ENV", "RUN", "USER", "WORKDIR"]);
});

test("has the treatment of each instruction", () => {
  const rows = tableRows(page, ["Instruction", "Support"]);
  const of = (support: RegExp) =>
    rows.filter(({ Support = "" }) => support.test(Support)).flatMap(({ Instruction }) => words(Instruction));
  const steps = (instruction: string) => parseDockerfile(`FROM x\n${instruction} /a`, "arm64").steps;
  for (const name of of(/^accepted without effect/)) expect(steps(name)).toEqual(steps("LABEL"));
  for (const name of of(/^refused/).filter((name) => /^[A-Z]+$/.test(name))) {
    expect(() => steps(name)).toThrow(`Dockerfile, line 2: ${name} is not supported`);
  }
  const all = "ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL MAINTAINER ONBUILD RUN SHELL STOPSIGNAL";
  const named = of(/./).filter((name) => !name.startsWith("a second"));
  expect(named.toSorted()).toEqual([...all.split(" "), "USER", "VOLUME", "WORKDIR"]);
});
