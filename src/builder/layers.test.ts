/** Rewriting a layer: the old layer stays until the new one is complete. Removing all layers of an owner. */
import { beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "../base/testing/test-folder.ts";
import { Checkpoints } from "../sandbox/checkpoint/checkpoints.ts";
import { MANIFEST_FORMAT, type Manifest } from "../sandbox/checkpoint/manifest.ts";
import type { SandboxRecord } from "../sandbox/sandbox-record.ts";
import { Layers } from "./layers.ts";

const KEY = "c0b5";
const record = { id: "sandbox" } as SandboxRecord;
const folder = folderOfFile("layers");

let checkpoints: Checkpoints;
let layers: Layers;
let beforeItIsWhole: () => Promise<void>;

beforeEach(() => {
  checkpoints = new Checkpoints(mkdtempSync(join(folder, "of-one-test-")));
  beforeItIsWhole = async () => undefined;
  layers = new Layers(checkpoints, {
    async write(_record, name, { note }) {
      const draft = checkpoints.begin(name);
      writeFileSync(draft.disk, "");
      checkpoints.describe(draft, { format: MANIFEST_FORMAT, kind: {}, note: note?.(draft) } as Manifest);
      await beforeItIsWhole().catch(async (cause) => {
        await checkpoints.remove(name);
        throw cause;
      });
      await checkpoints.commit(name, draft, false);
    },
  });
});

const write = (workdir: string) =>
  layers.write(record, KEY, {
    context: { user: "user", home: "", workdir, envVars: {} },
    owner: "team",
    before: undefined,
  });
const workdirOf = () => layers.hold(KEY, async ({ context }) => context.workdir);

// Guards against a cancelled build that takes along the layer with which another is about to begin.
test("a failed rewrite keeps the old layer for a build that is about to use it", async () => {
  await write("/before");
  beforeItIsWhole = async () => {
    throw new Error("cancelled");
  };
  const writing = write("/after");
  const beginning = workdirOf();
  expect(await writing.catch(String)).toBe("Error: cancelled");
  expect(await beginning).toBe("/before");
  expect(readdirSync(checkpoints.folder)).toEqual([KEY]);
});

test("a complete layer replaces the old one, which is found until then", async () => {
  await write("/before");
  beforeItIsWhole = async () => expect(layers.find(KEY)?.context.workdir).toBe("/before");
  await write("/after");
  expect(await workdirOf()).toBe("/after");
  expect(readdirSync(checkpoints.folder)).toEqual([KEY]);
});

describe("removing the layers of an owner", () => {
  /** As version 0.1.0 wrote it. */
  async function writeWithoutOwner(key: string): Promise<void> {
    const draft = checkpoints.begin(key);
    writeFileSync(draft.disk, "");
    checkpoints.describe(draft, { format: MANIFEST_FORMAT, kind: {}, note: { bytes: 0 } } as unknown as Manifest);
    await checkpoints.commit(key, draft, false);
  }

  const others = { context: { user: "user", home: "", workdir: "/", envVars: {} }, owner: "others", before: undefined };

  test("leaves those of others", async () => {
    await write("/before");
    await layers.write(record, "d1", others);
    await layers.removeOf("team");
    expect(readdirSync(checkpoints.folder)).toEqual(["d1"]);
    await layers.removeOf("unknown");
    expect(readdirSync(checkpoints.folder)).toEqual(["d1"]);
  });

  test("takes those that do not name an owner, unless a build uses them", async () => {
    await Promise.all(["used", "unused"].map(writeWithoutOwner));
    using _build = layers.keep("used");
    await layers.removeOf("team");
    expect(readdirSync(checkpoints.folder)).toEqual(["used"]);
  });
});

test("an unfinished layer is not counted or collected; that of a killed server is removed", async () => {
  await write("/before");
  await checkpoints.rename(KEY, `${KEY}-draft`);
  await layers.collect({ layersMaxBytes: 0, layersKeptMs: 0 }, () => true);
  expect(await layers.bytes()).toBe(0);
  expect(readdirSync(checkpoints.folder)).toEqual([`${KEY}-draft`]);
  await layers.recover();
  expect(readdirSync(checkpoints.folder)).toEqual([]);
});
