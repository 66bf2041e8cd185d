/**
 * Concurrent builds, creates, deletions and collections of a few templates on the real machine. A model tracks which
 * template exists: its sandboxes have its word, a build fails only when cancelled, and a create fails only when its
 * template was replaced or deleted meanwhile. At the end nothing is left. A bug planted in layers.ts, writing layers
 * without waiting for others of the same key, was found by this test.
 *
 * SANDLOT_TEST_SEED chooses the operations; SANDLOT_TEST_LONG=1 extends the storm to minutes.
 */
import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { LONG } from "../../src/base/testing/long.ts";
import { SEED } from "../../src/base/testing/seed.ts";
import { seededRandom } from "../../src/control/testing/control-fixture.ts";
import { base, type Ready, requestOf, run } from "../support/building.ts";
import { NOTHING, settledCensus } from "../support/census.ts";
import { shell } from "../support/inside.ts";
import { MachineOfFile } from "../support/machine-of-file.ts";

/** It blows until so many builds are over, or for so long; and on until each of these was seen, for so much longer. */
const BUILDS = LONG ? Number.POSITIVE_INFINITY : 12;
const BLOW_MS = LONG ? 180_000 : 30_000;
const SUCCESSES = ["build ready", "build failed", "create done", "collect done"];
const LONGER_MS = 300_000;
const CLIENTS = 8;
const SLOTS = 2;
const CANCELLED = "the storm wants it so";

interface Template extends Ready {
  word: string;
}

const here = new MachineOfFile("build-storm");
const start = { command: "sleep 1000", ready: "true" };

class BuildStorm {
  readonly templates: (Template | undefined)[] = Array.from({ length: SLOTS });
  readonly wrong: string[] = [];
  readonly seen = new Map<string, number>();
  readonly #random = seededRandom(SEED);
  readonly #building = new Set<string>();
  #built = 0;

  async client(untilMs: number): Promise<void> {
    while (!this.#isOver(untilMs)) {
      const act = this.#one([
        "build",
        "build",
        "build",
        "create",
        "create",
        "cancel",
        "collect",
        "collect",
        "delete",
      ] as const);
      const ended = await this[act](this.#drawn(SLOTS)).catch((error: unknown) => this.#note(`${act}: ${error}`));
      this.seen.set(`${act} ${ended}`, (this.seen.get(`${act} ${ended}`) ?? 0) + 1);
    }
  }

  #isOver(untilMs: number): boolean {
    const leftMs = this.#built < BUILDS ? untilMs - performance.now() : 0;
    const hasSeenAll = SUCCESSES.every((success) => this.seen.has(success));
    return performance.now() > untilMs + LONGER_MS || (leftMs <= 0 && hasSeenAll);
  }

  async build(slot: number): Promise<string> {
    const word = this.#one(["plain", "started"]);
    const steps = [run("echo common > common"), run(`echo ${word} > word`)];
    const options = { templateId: `t${slot}`, start: word === "started" ? start : null, force: this.#drawn(2) === 0 };
    const request = requestOf(steps, options);
    this.#building.add(request.id);
    const outcome = await here.machine.build(request);
    this.#building.delete(request.id);
    this.#built++;
    if (outcome.isReady) {
      await this.#replace(slot, { ...outcome, word });
      // Named once, it is not new any more, and goes with its template.
      await this.collect();
    } else if (outcome.message !== CANCELLED) this.#note(`build at ${outcome.step}: ${outcome.message}`);
    return outcome.isReady ? "ready" : "failed";
  }

  async create(slot: number): Promise<string> {
    const template = this.templates[slot];
    if (template === undefined) return "without a template";
    const { image, checkpoint, word, envVars } = template;
    const starting = { start, ...(checkpoint === null ? {} : { checkpoint }) };
    const kind = { ...base, image };
    const request = {
      kind,
      envVars,
      accessTokens: [],
      egress: "closed" as const,
      ...(word === "started" ? starting : {}),
    };
    try {
      const { id, mismatch } = await here.machine.create(request);
      if (mismatch !== undefined && this.templates[slot] === template) this.#note(`mismatch: ${mismatch}`);
      const found = await shell(here.data, id, "cat /home/user/common /home/user/word");
      if (found !== `common\n${word}`) this.#note(`a sandbox of ${word} has ${found}`);
      await here.machine.destroy(id);
      return "done";
    } catch (error) {
      if (this.templates[slot] === template) throw error;
      return "too late";
    }
  }

  async cancel(): Promise<string> {
    const [id] = this.#building;
    if (id === undefined) return "nothing";
    await here.machine.cancelBuild(id, CANCELLED);
    return "done";
  }

  async collect(): Promise<string> {
    await here.machine.collectImages(this.templates.flatMap((template) => template?.image ?? []));
    return "done";
  }

  async delete(slot: number): Promise<string> {
    await this.#replace(slot, undefined);
    return "done";
  }

  /** As the server does: a checkpoint is removed with the last template that starts from it. */
  async #replace(slot: number, template: Template | undefined): Promise<void> {
    const before = this.templates[slot]?.checkpoint ?? null;
    this.templates[slot] = template;
    const isNeeded = this.templates.some((other) => other?.checkpoint === before);
    if (before !== null && !isNeeded) await here.machine.removeCheckpoint(before);
  }

  #note(what: string): string {
    this.wrong.push(what);
    return "wrong";
  }

  #one<T>(choices: readonly [T, ...T[]]): T {
    return choices[this.#drawn(choices.length)] ?? choices[0];
  }

  #drawn(below: number): number {
    return Math.floor(this.#random() * below);
  }
}

test(
  `a storm of builds (SANDLOT_TEST_SEED=${SEED})`,
  async () => {
    const storm = new BuildStorm();
    const untilMs = performance.now() + BLOW_MS;
    await Promise.all(Array.from({ length: CLIENTS }, () => storm.client(untilMs)));
    expect(storm.wrong).toEqual([]);
    for (const success of SUCCESSES) expect(storm.seen.get(success) ?? 0, success).toBeGreaterThan(0);
    for (let slot = 0; slot < SLOTS; slot++) await storm.delete(slot);
    expect(await settledCensus(here.dataFolder, NOTHING)).toEqual(NOTHING);
    const left = (folder: string) => readdirSync(join(here.dataFolder, "disks", folder));
    expect(left("checkpoints")).toEqual([]);
    expect([...left("images"), ...left("layers")].filter((name) => name.includes("."))).toEqual([]);
  },
  BLOW_MS + LONGER_MS + 300_000,
);
