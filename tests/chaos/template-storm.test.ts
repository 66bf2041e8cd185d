/**
 * Clients build, create, visit, copy, pause, kill and delete on the real machine, in an order that a seed decides,
 * while images are collected. A model knows which templates exist and what each sandbox must find in its image: a word
 * of each build below it. At the end nothing is left: no image, checkpoint, running build or part of a sandbox.
 */
import { expect, test } from "bun:test";
import { Sandbox, Template } from "e2b";
import { LONG } from "../../src/base/testing/long.ts";
import { SEED } from "../../src/base/testing/seed.ts";
import type { BuildRequest, Host } from "../../src/contract/internal/host.ts";
import { seededRandom } from "../../src/control/testing/control-fixture.ts";
import type { Machine } from "../../src/host/machine.ts";
import { hostWith } from "../../src/host/testing/serialised-host.ts";
import { NOTHING, settledCensus } from "../support/census.ts";
import { RealServer } from "../support/real-server.ts";
import { newDataFolder } from "../support/server.ts";
import { until } from "../support/until.ts";

const BLOW_MS = LONG ? 300_000 : 4_000;
/** A storm of refusals alone would prove nothing: it goes on until each of these was seen. */
const SUCCESSES = ["build", "stacked build", "create", "visit", "snapshot", "copy", "pause", "deletion", "collection"];
const LONGER_MS = 300_000;
const CLIENTS = 5;
const CALM_MS = 100;
const SANDBOXES = 5;
const NAMES = ["one", "two", "three"];
/** Error messages of an operation that races with a deletion. */
const GONE = /does not exist|no finished build|was deleted|only one that waits|not on this machine/;
const NEWER_OR_GONE = new RegExp(`newer build|${GONE.source}`);
const WORDS = "cat /home/user/word-*";

interface BuildRecord {
  name: string;
  templateId: string;
  word: string;
  /** In the order of all that the clients saw. */
  askedAt: number;
  overAt: number;
  isReady: boolean;
}

interface Inhabited {
  sandbox: Sandbox;
  templateId: string;
  /** The words that it must find in its image. */
  words: string;
  /** An operation that must not be disturbed uses this sandbox. */
  isTaken: boolean;
}

/** The result of an operation that may be rejected, or the message of the refusal. */
type Came<T> = { value: T } | { refusal: string };

async function came<T>(promise: Promise<T>): Promise<Came<T>> {
  return await promise.then(
    (value) => ({ value }),
    (error: Error) => ({ refusal: error.message }),
  );
}

class BuildStorm {
  readonly faults: string[] = [];
  readonly counts: Record<string, number> = {};
  readonly #random = seededRandom(SEED);
  readonly #began = performance.now();
  readonly #builds: BuildRecord[] = [];
  readonly #inhabited = new Set<Inhabited>();
  readonly #snapshots: { id: string; words: string }[] = [];
  readonly #templates = new Set<string>();
  /** Templates that are deleted, or just being. */
  readonly #deletions = new Set<string>();
  /** Images of builds that the host has done and that may not be in the books yet. */
  readonly #inHand = new Map<string, string>();
  #server!: RealServer;
  #at = 0;

  static async blow(dataFolder: string): Promise<BuildStorm> {
    const storm = new BuildStorm();
    await using server = await RealServer.open(dataFolder, { host: (machine) => storm.#listenTo(machine) });
    storm.#server = server;
    await Promise.all([storm.#collecting(), ...Array.from({ length: CLIENTS }, () => storm.#client())]);
    await storm.#settle();
    return storm;
  }

  #listenTo(machine: Machine): Host {
    const build = async (request: BuildRequest) => {
      const outcome = await machine.build(request);
      if (outcome.isReady) this.#inHand.set(request.id, outcome.image);
      return outcome;
    };
    return hostWith(machine, { build });
  }

  get #options() {
    return { ...this.#server.optionsWith(), logsRefreshFrequency: 20, requestTimeoutMs: 60_000 };
  }

  get #isOver(): boolean {
    const leftMs = this.#began + BLOW_MS - performance.now();
    return leftMs < -LONGER_MS || (leftMs < 0 && SUCCESSES.every((success) => success in this.counts));
  }

  async #client(): Promise<void> {
    while (!this.#isOver) {
      await Bun.sleep(this.#random() * CALM_MS);
      await this.#act().catch((error) => this.faults.push(Bun.inspect(error).slice(0, 1_000)));
    }
  }

  async #act(): Promise<void> {
    const dice = this.#random();
    const name = this.#oneOf(NAMES) ?? "";
    // Else they would only cancel each other.
    const isBuilding = this.#builds.some((build) => build.name === name && build.overAt === Number.POSITIVE_INFINITY);
    if (dice < (isBuilding ? 0.02 : 0.25)) return await this.#build(name);
    if (dice < 0.5 || this.#inhabited.size === 0) return await this.#create(name);
    if (dice < 0.55) return await this.#copy();
    if (dice < 0.6) return await this.#deleteSnapshot();
    if (dice < 0.64) return await this.#deleteTemplate();
    await this.#withOne(async (one) => {
      await this.#visit(one);
      if (dice < 0.72) await this.#snapshot(one);
      else if (dice < 0.8) await this.#pauseAndWake(one);
      else if (dice < 0.88) await this.#kill(one);
    });
  }

  /** Sometimes on top of another template, sometimes with something that goes on running. */
  async #build(name: string): Promise<void> {
    const parent = this.#random() < 0.3 ? this.#oneOf(NAMES) : undefined;
    const record: BuildRecord = {
      name,
      templateId: "",
      word: crypto.randomUUID(),
      askedAt: ++this.#at,
      overAt: Number.POSITIVE_INFINITY,
      isReady: false,
    };
    this.#builds.push(record);
    const begun = Template()
      .fromTemplate(parent ?? "base")
      .runCmd("echo the same for all > /home/user/word-common", { user: "root" })
      .runCmd(`echo ${record.word} > /home/user/word-${name}`, { user: "root" });
    const template = this.#random() < 0.3 ? begun.setStartCmd("sleep 1000", "true") : begun;
    const request = await came(Template.buildInBackground(template, name, this.#options));
    if ("refusal" in request) return this.#refused("build", request.refusal, GONE);
    record.templateId = request.value.templateId;
    this.#templates.add(record.templateId);
    const status = async () => await Template.getBuildStatus(request.value, this.#options);
    const ended = await came(until("the build ends", async () => (await status()).status !== "building"));
    const over = await came(status());
    record.overAt = ++this.#at;
    if ("refusal" in ended || "refusal" in over) {
      return this.#refused("build", "refusal" in over ? over.refusal : "it never ends", GONE);
    }
    record.isReady = over.value.status === "ready";
    if (record.isReady) return this.#count(parent === undefined ? "build" : "stacked build");
    const reason = over.value.reason?.message ?? "";
    if (parent !== undefined && GONE.test(reason)) this.#requireGone(parent, record.askedAt, reason);
    this.#refused("build", reason, NEWER_OR_GONE);
  }

  async #create(name: string): Promise<void> {
    if (this.#inhabited.size >= SANDBOXES) return await this.#withOne((one) => this.#kill(one));
    const askedAt = ++this.#at;
    const made = await came(Sandbox.create(name, this.#options));
    if ("refusal" in made) {
      this.#requireGone(name, askedAt, made.refusal);
      return this.#refused("create", made.refusal, GONE);
    }
    const one = await this.#moveIn(made.value);
    const builds = this.#builds.filter((build) => build.name === name);
    const own = builds.find(({ word }) => one.words.includes(word));
    if (own === undefined) return void this.faults.push(`a sandbox of ${name} says ${one.words}`);
    const newer = builds.find(
      (build) => build.isReady && build.overAt < askedAt && build.askedAt > own.overAt && build !== own,
    );
    if (newer !== undefined)
      this.faults.push(`a sandbox of ${name} is of an older build: ${JSON.stringify([own, newer])}`);
    this.#count("create");
  }

  /** A build that was ready before the request, and is not deleted, must be available to it. */
  #requireGone(name: string, askedAt: number, refusal: string): void {
    const owed = this.#builds.find(
      (build) =>
        build.name === name && build.isReady && build.overAt < askedAt && !this.#deletions.has(build.templateId),
    );
    if (owed !== undefined) this.faults.push(`${name} was refused (${refusal}), but there is ${JSON.stringify(owed)}`);
  }

  async #moveIn(sandbox: Sandbox): Promise<Inhabited> {
    const { stdout: words } = await sandbox.commands.run(WORDS);
    const { templateId } = await sandbox.getInfo();
    const one = { sandbox, templateId, words, isTaken: false };
    this.#inhabited.add(one);
    return one;
  }

  async #visit({ sandbox, words }: Inhabited): Promise<void> {
    const { stdout } = await sandbox.commands.run(WORDS);
    if (stdout !== words) this.faults.push(`${sandbox.sandboxId} says ${stdout}, not ${words}`);
    this.#count("visit");
  }

  async #snapshot({ sandbox, words }: Inhabited): Promise<void> {
    this.#snapshots.push({ id: (await sandbox.createSnapshot()).snapshotId, words });
    this.#count("snapshot");
  }

  async #copy(): Promise<void> {
    const snapshot = this.#oneOf(this.#snapshots);
    if (snapshot === undefined || this.#inhabited.size >= SANDBOXES) return;
    const made = await came(Sandbox.create(snapshot.id, this.#options));
    if ("refusal" in made) return this.#refused("copy", made.refusal, GONE);
    const { words } = await this.#moveIn(made.value);
    if (words !== snapshot.words) this.faults.push(`a copy says ${words}, not ${snapshot.words}`);
    this.#count("copy");
  }

  async #deleteSnapshot(): Promise<void> {
    const snapshot = this.#snapshots.splice(Math.floor(this.#random() * this.#snapshots.length), 1)[0];
    if (snapshot === undefined) return;
    const gone = await came(Sandbox.deleteSnapshot(snapshot.id, this.#options));
    if ("refusal" in gone) {
      this.#refused("deletion of a snapshot", gone.refusal, /running or paused/);
      this.#snapshots.push(snapshot);
    }
  }

  async #pauseAndWake(one: Inhabited): Promise<void> {
    await one.sandbox.pause();
    one.sandbox = await Sandbox.connect(one.sandbox.sandboxId, this.#options);
    await this.#visit(one);
    this.#count("pause");
  }

  async #kill(one: Inhabited): Promise<void> {
    this.#inhabited.delete(one);
    await one.sandbox.kill();
  }

  /** Refused while there are sandboxes of it; it takes the builds that are under way with it. */
  async #deleteTemplate(): Promise<void> {
    const id = this.#oneOf([...this.#templates]);
    if (id === undefined) return;
    for (const one of [...this.#inhabited]) {
      if (one.templateId === id && !one.isTaken && this.#random() < 0.9) await this.#kill(one);
    }
    const before = this.#inhabitedOf(id);
    this.#deletions.add(id);
    const response = await this.#server.call("DELETE", `/templates/${id}`);
    const after = this.#inhabitedOf(id);
    if (response.status === 400) {
      this.#deletions.delete(id);
      return this.#refused("deletion", response.body.message, /running or paused/);
    }
    if (response.status !== 204 && response.status !== 404) this.faults.push(`a deletion: ${response.status}`);
    if (before.some((one) => after.includes(one))) this.faults.push(`${id} was deleted under a sandbox`);
    this.#templates.delete(id);
    if (response.status === 204) this.#count("deletion");
  }

  /** Like the server's collection, but sooner: the server spares uncertain images for a minute. */
  async #collecting(): Promise<void> {
    const { store, machine } = this.#server;
    while (!this.#isOver) {
      for (const id of [...this.#inHand.keys()]) {
        if ((await store.builds.byId(id))?.status !== "building") this.#inHand.delete(id);
      }
      const named = await store.buildsInUse.images();
      const before = machine.parts.images.list().length;
      await machine.collectImages([...named, ...this.#inHand.values()]);
      if (machine.parts.images.list().length < before) this.#count("collection");
      await Bun.sleep(50);
    }
  }

  async #settle(): Promise<void> {
    const { control, machine, store, data } = this.#server;
    for (const one of [...this.#inhabited]) {
      await came(this.#visit(one));
      await this.#kill(one);
    }
    while (this.#snapshots.length > 0) await this.#deleteSnapshot();
    for (const name of NAMES) {
      await fetch(`${this.#server.url}/templates/${name}`, {
        method: "DELETE",
        headers: { "X-API-Key": this.#server.apiKey },
      });
    }
    await control.settled();
    const unfinished = await store.builds.unfinished("building");
    if (unfinished.length > 0) this.faults.push(`builds that never end: ${JSON.stringify(unfinished)}`);
    // An image that was listed once no longer counts as new.
    await machine.collectImages(machine.parts.images.list().map(({ name }) => name));
    await machine.collectImages(await store.buildsInUse.images());
    expect({ images: machine.parts.images.list(), checkpoints: await machine.parts.checkpoints.list() }).toEqual({
      images: [],
      checkpoints: [],
    });
    expect(await settledCensus(data.path, NOTHING)).toEqual(NOTHING);
  }

  async #withOne(act: (one: Inhabited) => Promise<void>): Promise<void> {
    const one = this.#oneOf([...this.#inhabited].filter(({ isTaken }) => !isTaken));
    if (one === undefined) return;
    one.isTaken = true;
    await act(one).finally(() => {
      one.isTaken = false;
    });
  }

  #inhabitedOf(templateId: string): Inhabited[] {
    return [...this.#inhabited].filter((one) => one.templateId === templateId);
  }

  #refused(what: string, words: string, allowed: RegExp): void {
    this.#count(`no ${what}`);
    if (!allowed.test(words)) this.faults.push(`${what} was refused: ${words}`);
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }

  #oneOf<T>(list: readonly T[]): T | undefined {
    return list[Math.floor(this.#random() * list.length)];
  }
}

test(
  `a storm of builds: no sandbox loses its image, and nothing is left (SANDLOT_TEST_SEED=${SEED})`,
  async () => {
    const storm = await BuildStorm.blow(newDataFolder("template-storm"));
    console.log(`the storm of builds: ${JSON.stringify(storm.counts)}`);
    expect(storm.faults.slice(0, 20)).toEqual([]);
    for (const success of SUCCESSES) expect(storm.counts[success], success).toBeGreaterThan(0);
  },
  BLOW_MS + LONGER_MS + 300_000,
);
