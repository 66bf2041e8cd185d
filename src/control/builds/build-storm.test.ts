/**
 * Clients of two teams request, start, cancel and delete builds in an order that a seed decides, while builds on the
 * host succeed, fail and break. Limits hold at every moment. At the end every build has exactly one outcome, tags point
 * to ready builds, and the host has nothing left.
 */
import { expect, test } from "bun:test";
import { SEED } from "../../base/testing/seed.ts";
import type { BuildOutcome } from "../../contract/internal/host.ts";
import { BuildCalls, type Requested } from "../testing/build-calls.ts";
import { ControlFixture, seededRandom } from "../testing/control-fixture.ts";

const ROUNDS = 100;
const STORM_MS = 120_000;
const AT_ONCE = 2;
const WAITING = 4;
const NAMES = ["a", "b:v1", "b:v2", "c"];

class Storm {
  readonly #calls: BuildCalls;
  readonly #requested: { build: Requested; key: string }[] = [];
  /** Builds under way on the host, to be ended. */
  readonly #open = new Map<string, (outcome: BuildOutcome) => void>();
  readonly faults: string[] = [];

  constructor(
    readonly fixture: ControlFixture,
    readonly keys: readonly string[],
    readonly random: () => number,
  ) {
    this.#calls = new BuildCalls(fixture);
    fixture.host.buildAs = (request) =>
      new Promise((end, fail) => {
        if (fixture.host.building.length > AT_ONCE) this.faults.push(`${fixture.host.building.length} builds at once`);
        if (this.random() < 0.1) fail(new Error("a tool broke"));
        this.#open.set(request.id, end);
      });
  }

  async step(): Promise<void> {
    const dice = this.random();
    const key = this.#oneOf(this.keys) ?? "";
    const name = this.#oneOf(NAMES) ?? "";
    if (dice < 0.3) await this.#request(key, name);
    else if (dice < 0.65) await this.#start();
    else if (dice < 0.9) this.#endOne();
    else await this.#expect([204, 404], this.#call("DELETE", `/templates/${name.split(":")[0]}`, key));
  }

  /** Lets the host end all work under way, until no more begins. */
  async settle(): Promise<void> {
    const isOver = async () => {
      for (const id of this.#open.keys()) this.#end(id);
      const unfinished = await this.fixture.store.builds.unfinished("building");
      return unfinished.length === 0 && this.fixture.host.building.length === 0;
    };
    await this.fixture.until(isOver);
    await this.fixture.control.settled();
  }

  async judge(): Promise<void> {
    const { store, host } = this.fixture;
    const startable: string[] = [];
    for (const { build } of this.#requested) {
      const row = await store.builds.byId(build.buildID);
      const isDeleted = (await store.templates.byId(build.templateID)) === undefined;
      if (row === undefined || (isDeleted && row.status === "waiting")) this.faults.push(`${build.buildID} is left`);
      if ((row?.status === "error") !== (row?.reason !== null)) this.faults.push(`${build.buildID} has a wrong reason`);
      if (row?.status === "ready" && !isDeleted && row.checkpoint !== null) startable.push(row.checkpoint);
      for (const tag of row?.tags ?? []) {
        const means = await store.builds.tagged(build.templateID, tag);
        if (means !== undefined && means.status !== "ready") this.faults.push(`${tag} means ${means.status}`);
      }
    }
    expect(host.checkpoints.toSorted()).toEqual(startable.toSorted());
    expect(this.faults).toEqual([]);
  }

  async #request(key: string, name: string): Promise<void> {
    const reply = await this.#expect([202, 429], this.#call("POST", "/v3/templates", key, { name }));
    if (reply.status === 202) this.#requested.push({ build: reply.body as unknown as Requested, key });
    const team = await this.fixture.store.people.teamBySlug(key === this.fixture.apiKey ? "default" : "other");
    const waiting = await this.fixture.store.builds.countUnfinished("waiting", team?.id ?? "");
    if (waiting > WAITING) this.faults.push(`${waiting} builds wait`);
  }

  async #start(): Promise<void> {
    const one = this.#oneOf(this.#requested);
    if (one !== undefined) await this.#expect([202, 400, 404], this.#calls.start(one.build, {}, one.key));
  }

  #endOne(): void {
    const id = this.#oneOf([...this.#open.keys()]);
    if (id !== undefined) this.#end(id);
  }

  #end(id: string): void {
    const made = { image: `i-${id}`, defaultUser: "user", defaultWorkdir: "/", envVars: {}, checkpoint: `c-${id}` };
    const failed = { isReady: false as const, step: "1", message: "exit status 1" };
    this.#open.get(id)?.(this.random() < 0.7 ? { isReady: true, ...made } : failed);
    this.#open.delete(id);
  }

  #call(method: string, path: string, key: string, body?: unknown) {
    return this.fixture.call(method, path, body, { "X-API-Key": key });
  }

  async #expect(statuses: readonly number[], call: ReturnType<ControlFixture["call"]>) {
    const reply = await call;
    if (!statuses.includes(reply.status)) this.faults.push(`${reply.status}: ${reply.body?.message}`);
    return reply;
  }

  #oneOf<T>(list: readonly T[]): T | undefined {
    return list[Math.floor(this.random() * list.length)];
  }
}

test(
  "a storm of builds leaves nothing undecided",
  async () => {
    await using fixture = await ControlFixture.open();
    fixture.buildLimits = { atOnce: AT_ONCE, waitingPerTeam: WAITING };
    await fixture.restart();
    const storm = new Storm(fixture, [fixture.apiKey, await fixture.anotherTeam("other")], seededRandom(SEED));
    for (let round = 0; round < ROUNDS; round++) {
      await Promise.all([storm.step(), storm.step(), storm.step()]);
    }
    await storm.settle();
    await storm.judge();
  },
  STORM_MS,
);
