/**
 * SIGKILL ends the server in every phase of a build. The next server reports the build as failed, keeps only its
 * layers, and builds the same template with them.
 *
 * Each run plays a sample that SANDLOT_TEST_SEED chooses; SANDLOT_TEST_LONG=1 plays every phase at several moments.
 */
import { expect, test } from "bun:test";
import { cpSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Template } from "e2b";
import { LONG } from "../../src/base/testing/long.ts";
import { SEED } from "../../src/base/testing/seed.ts";
import { seededRandom } from "../../src/control/testing/control-fixture.ts";
import { Toolbox } from "../../src/system/toolbox.ts";
import { CACHE } from "../support/cache.ts";
import { NOTHING, settledCensus } from "../support/census.ts";
import { newDataFolder } from "../support/server.ts";
import { foldersOfFile } from "../support/server-of-file.ts";
import { until } from "../support/until.ts";
import { Stage } from "./stage.ts";

const SAMPLE = 1;
const MOMENTS = 5;
/** How often a moment is looked for that a busy machine lets slip. */
const TRIES = 5;
const SMALL = "example.test/small";
const IMAGE = newDataFolder("killed-builds-image");
/** Names of images that builds have made, and of anything that is complete. */
const BUILT = /^t[0-9a-f]{20}$/;
const WHOLE = /^[a-z0-9][a-z0-9-]*(\.json)?$/;
const folder = foldersOfFile();
const random = seededRandom(SEED);

interface Phase {
  name: string;
  /** Begins when the build has said this, and takes about so long. */
  says: string;
  lastsMs: number;
  /** Steps that the next build does not run again, at least. */
  cached: number;
  from: "image" | "base";
}

const PHASES: readonly Phase[] = [
  { name: "fetch", says: "is taken from this machine", lastsMs: 200, cached: 0, from: "image" },
  { name: "unpack", says: "Unpacking the image", lastsMs: 200, cached: 0, from: "image" },
  { name: "step", says: "[1/2]", lastsMs: 100, cached: 0, from: "base" },
  { name: "layer", says: "written", lastsMs: 40, cached: 0, from: "base" },
  { name: "second step", says: "[2/2]", lastsMs: 60, cached: 1, from: "base" },
  { name: "image copy", says: "Writing the image", lastsMs: 150, cached: 2, from: "base" },
  { name: "start", says: "Starting", lastsMs: 150, cached: 2, from: "base" },
  { name: "checkpoint", says: "Ready", lastsMs: 200, cached: 2, from: "base" },
];

interface Accident extends Phase {
  afterMs: number;
}

function chosen(): Accident[] {
  const all = PHASES.flatMap((phase) =>
    Array.from({ length: LONG ? MOMENTS : 1 }, () => ({ ...phase, afterMs: Math.floor(random() * phase.lastsMs) })),
  );
  if (LONG) return all;
  return Array.from({ length: SAMPLE }, () => all.splice(Math.floor(random() * all.length), 1)).flat();
}

/** A root filesystem of one program. */
function makeImage(): void {
  for (const path of ["bin", "etc"]) mkdirSync(join(IMAGE, path), { recursive: true });
  cpSync(join(new Toolbox(CACHE).toolFolder, "usr/bin/busybox"), join(IMAGE, "bin/busybox"));
  for (const name of ["sh", "echo", "head", "cp", "sleep", "true"]) symlinkSync("busybox", join(IMAGE, "bin", name));
  writeFileSync(join(IMAGE, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n");
  writeFileSync(join(IMAGE, "etc/group"), "root:x:0:\n");
}

function templateOf({ from }: Phase) {
  // A changed image, because the build would otherwise use the one fetched before.
  if (from === "image") writeFileSync(join(IMAGE, "which"), crypto.randomUUID());
  const begun = from === "image" ? Template().fromImage(SMALL) : Template().fromTemplate("base");
  return (
    begun
      // The log shows the line before it runs; this word appears only in the line's output.
      .runCmd(`echo ${crypto.randomUUID()}; head -c 20000000 /dev/urandom > a; echo writ""ten`)
      .runCmd("cp a b")
      .setStartCmd("sleep 1000", "true")
  );
}

class Scene {
  constructor(readonly stage: Stage) {}

  async play(accident: Accident): Promise<string[]> {
    for (let tries = 0; tries < TRIES; tries++) {
      const faults = await this.#playOnce(accident);
      if (faults !== "missed") return faults;
    }
    return [`${accident.name}: missed ${TRIES} times`];
  }

  /** Missed: the build was over before the server was killed. */
  async #playOnce(accident: Accident): Promise<string[] | "missed"> {
    const template = templateOf(accident);
    const name = crypto.randomUUID();
    const { server } = this.stage;
    const build = await Template.buildInBackground(template, name, server.options);
    const path = `/templates/${build.templateId}/builds/${build.buildId}/status?level=debug`;
    await until(`it says ${accident.says}`, async () => this.#said(path, accident.says));
    await Bun.sleep(accident.afterMs);
    await this.stage.restart();
    const faults: string[] = [];
    const over = (await this.stage.ask("GET", path))?.body;
    if (over.status === "ready") return "missed";
    const reason = "the server was restarted while the build was under way; start a new build";
    if (over.status !== "error" || over.reason?.message !== reason) faults.push(`it is ${JSON.stringify(over)}`);
    faults.push(...(await this.#left()));
    const lines: string[] = [];
    const onBuildLogs = ({ message }: { message: string }) => void lines.push(message);
    const options = { ...this.stage.server.options, onBuildLogs };
    await Template.build(template, name, options);
    const cached = lines.filter((message) => message.includes("CACHED")).length;
    if (cached < accident.cached) faults.push(`only ${cached} steps were kept: ${lines.join("\n")}`);
    return faults.map((fault) => `${accident.name} after ${accident.afterMs} ms: ${fault}`);
  }

  /** Also when it is over: it may have been too fast. */
  async #said(path: string, words: string): Promise<boolean> {
    const status = (await this.stage.ask("GET", path))?.body;
    return JSON.stringify(status?.logEntries ?? "").includes(words) || status?.status === "ready";
  }

  /** Leftovers. Layers and fetched images do not count: they are kept for later builds. */
  async #left(): Promise<string[]> {
    const { dataFolder, server } = this.stage;
    const namesIn = (name: string) => readdirSync(join(`/proc/${server.pid}/root`, dataFolder, "disks", name));
    const listed = (await this.stage.ask("GET", "/templates"))?.body as { buildStatus: string }[];
    const ready = listed.filter(({ buildStatus }) => buildStatus === "ready").length;
    const look = () => ({
      images: namesIn("images").filter((name) => BUILT.test(name)).length,
      checkpoints: namesIn("checkpoints").length,
      unfinished: ["images", "checkpoints", "layers", "results"].flatMap(namesIn).filter((name) => !WHOLE.test(name)),
    });
    const wanted = { images: ready, checkpoints: ready, unfinished: [] };
    // Unreferenced images and checkpoints are collected in the background.
    const isSo = async () => Bun.deepEquals(look(), wanted);
    await until("the rest is collected", isSo).catch(() => undefined);
    const found = { ...look(), ...(await settledCensus(dataFolder, NOTHING)) };
    return Bun.deepEquals(found, { ...wanted, ...NOTHING }) ? [] : [`this is left: ${JSON.stringify(found)}`];
  }
}

const accidents = chosen();
test(
  `${accidents.length} builds whose server is killed (SANDLOT_TEST_SEED=${SEED})`,
  async () => {
    makeImage();
    const stage = await Stage.open(folder("killed-builds"), { SANDLOT_IMAGES: `${SMALL}=folder:${IMAGE}` });
    const scene = new Scene(stage);
    const faults: string[] = [];
    for (const accident of accidents) faults.push(...(await scene.play(accident)));
    expect(faults).toEqual([]);
    await stage.close();
  },
  LONG ? 1_800_000 : 600_000,
);
