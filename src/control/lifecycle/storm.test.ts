/**
 * A storm: several clients kill, pause, resume, connect to, prolong, fork, snapshot, wake and change the network rules
 * of the same few sandboxes, thousands of times, on a host whose operations are slow and fail, while timeouts end and
 * sandboxes die. A model (storm-model.ts) judges every change, host operation and response.
 *
 * The model has found races. Every run also finds those planted below, by a store that lets a losing change win.
 * SANDLOT_TEST_SEED chooses the storm; SANDLOT_TEST_LONG=1 or SANDLOT_TEST_STORM_CALLS makes it longer.
 */
import { describe, expect, test } from "bun:test";
import { LONG } from "../../base/testing/long.ts";
import { SEED } from "../../base/testing/seed.ts";
import { Fault } from "../../contract/fault.ts";
import type { Sandbox } from "../../store/sandboxes.ts";
import type { Store } from "../../store/store.ts";
import { ControlFixture, seededRandom } from "../testing/control-fixture.ts";
import { type CallRecord, StormModel } from "../testing/storm-model.ts";
import { egressOf } from "./egress.ts";

const CLIENTS = 8;
const SLOTS = 3;
const CALLS = Number(process.env.SANDLOT_TEST_STORM_CALLS ?? (LONG ? 8_000 : 2_000));

type Plant = (store: Store) => void;

class Storm {
  readonly model = new StormModel();
  readonly calls: CallRecord[] = [];
  readonly #random: () => number;
  readonly #fixture: ControlFixture;
  readonly #slots: string[] = [];
  readonly #disks = new Map<string, number>();
  #calm = false;
  #left: number;

  private constructor(fixture: ControlFixture, seed: number, calls: number) {
    this.#fixture = fixture;
    this.#random = seededRandom(seed);
    this.#left = calls;
  }

  static async blow(seed: number, calls: number, plant?: Plant): Promise<Storm> {
    await using fixture = await ControlFixture.open();
    const storm = new Storm(fixture, seed, calls);
    plant?.(fixture.store);
    storm.model.listenTo(fixture.store, () => storm.#while(storm.#random() < 0.3 ? storm.#upTo(3) : 0));
    storm.#trouble();
    let clients = CLIENTS;
    const blown = Array.from({ length: CLIENTS }, () => storm.#client().finally(() => clients--));
    while (clients > 0) await fixture.clock.advance(1 + storm.#upTo(4), tick);
    await Promise.all(blown);
    await storm.#settle();
    storm.model.judge(storm.calls);
    return storm;
  }

  async #client(): Promise<void> {
    while (this.#left-- > 0) {
      await this.#while(this.#upTo(15));
      await this.#call();
    }
  }

  async #call(): Promise<void> {
    const slot = this.#upTo(SLOTS);
    const id = this.#slots[slot];
    if (id === undefined || (this.#random() < 0.5 && (await this.#fixture.store.sandboxes.byId(id)) === undefined)) {
      return this.#create(slot);
    }
    const memory = this.#random() < 0.8;
    const timeout = this.#seconds();
    const path = `/sandboxes/${id}`;
    const [op, method, target, body] = this.#pick<[string, string, string, unknown]>([
      ["read", "GET", path, undefined],
      ["kill", "DELETE", path, undefined],
      ["pause", "POST", `${path}/pause`, { memory }],
      ["pause", "POST", `${path}/pause`, {}],
      ["resume", "POST", `${path}/resume`, { memory, timeout: timeout + 1 }],
      [timeout === 0 ? "brief connect" : "connect", "POST", `${path}/connect`, { memory, timeout }],
      ["connect", "POST", `/v2${path}/connect`, { timeout: timeout + 1 }],
      ["timeout", "POST", `${path}/timeout`, { timeout }],
      ["refresh", "POST", `${path}/refreshes`, { duration: timeout }],
      ["fork", "POST", `${path}/fork`, { count: 1 + this.#upTo(3), timeout: timeout + 1 }],
      ["snapshot", "POST", `${path}/snapshots`, this.#random() < 0.5 ? {} : { name: "storm" }],
      ["network", "PUT", `${path}/network`, { denyOut: [`203.0.113.${this.#upTo(200)}`] }],
      ["wake", "", "", undefined],
      ["wake", "", "", undefined],
    ]);
    const from = this.#now();
    const { status, shown } = op === "wake" ? await this.#wake(id) : await this.#ask(method, target, body);
    this.calls.push({ op, id, status, shown, from, to: this.#now() });
    this.#checkContents(id);
    if (this.#random() < 0.02 && this.#fixture.host.running.includes(id)) this.#lose(id);
  }

  async #ask(method: string, path: string, body: unknown): Promise<{ status: number; shown: string | undefined }> {
    const reply = await this.#fixture.call(method, path, body);
    return { status: reply.status, shown: method === "GET" && reply.status === 200 ? reply.body.state : undefined };
  }

  async #wake(id: string): Promise<{ status: number; shown: undefined }> {
    const statuses = {
      "not-found": 502,
      "in-transition": 409,
      forbidden: 403,
      "traffic-token-missing": 403,
      "traffic-token-wrong": 403,
      "limit-reached": 429,
      unavailable: 503,
    };
    try {
      const woken = await this.#fixture.control.directory.wake(id, {
        port: 3000,
        accessToken: null,
        trafficToken: null,
        mayWake: true,
      });
      return { status: "refused" in woken ? statuses[woken.refused] : 200, shown: undefined };
    } catch (error) {
      return { status: Fault.from(error).status, shown: undefined };
    }
  }

  async #create(slot: number): Promise<void> {
    const reply = await this.#fixture.call("POST", "/sandboxes", {
      templateID: "base",
      timeout: this.#random() < 0.2 ? 10_000 : this.#seconds(),
      autoPause: this.#random() < 0.6,
      autoResume: { enabled: this.#random() < 0.6 },
    });
    if (![201, 500, 503].includes(reply.status)) this.model.faults.push(`create answered ${reply.status}`);
    if (reply.status === 201) this.#slots[slot] = reply.body.sandboxID;
  }

  /** Makes the host slow and failing, and lets the model observe its calls. */
  #trouble(): void {
    const { host } = this.#fixture;
    host.beforeCreate = () => this.#act(undefined, [503, 500], 0.1);
    host.beforePause = (id, name) => {
      this.model.acted("pause", id, name);
      return this.#act(id, [422, 500], 0.2);
    };
    host.beforeSnapshot = (id, name) => {
      this.model.acted("snapshot", id, name);
      return this.#act(id, [422, 503], 0.2);
    };
    host.beforeResume = ({ id, checkpoint }) => {
      this.model.acted("resume", id, checkpoint);
      return this.#act(id, [422, 503, 500], 0.2);
    };
    host.beforeEgressHolds = (id) => this.#act(id, [503, 500], 0.2);
    host.beforeDestroy = (id) => {
      this.model.acted("destroy", id);
      return this.#act(id, [500], 0.1);
    };
    // The host does not know whose checkpoint it is; a kill may fail for it.
    host.beforeRemoveCheckpoint = () => this.#act("*", [500], 0.1);
  }

  async #act(id: string | undefined, statuses: number[], chance: number): Promise<void> {
    if (this.#calm) return;
    await this.#while(this.#upTo(40));
    if (this.#calm || this.#random() >= chance) return;
    if (id !== undefined) this.model.failed(id);
    const status = this.#pick(statuses);
    throw status === 500 ? new Error("planned failure") : new Fault(status, "planned failure");
  }

  #lose(id: string): void {
    this.model.lost(id);
    this.#fixture.host.lose(id);
  }

  /** The content of its disk is still there, whatever happened to the sandbox. */
  #checkContents(id: string): void {
    const contents = this.#fixture.host.contentsOf(id);
    if (contents === undefined) return;
    const disk = this.#disks.get(id) ?? contents.disk;
    this.#disks.set(id, disk);
    if (contents.disk !== disk) this.model.faults.push(`${id} came back with another disk`);
  }

  /** Lets operations under way end, without trouble, and checks what is left. */
  async #settle(): Promise<void> {
    const { host, store, control, clock } = this.#fixture;
    this.#calm = true;
    for (let nth = 0; nth < 50; nth++) await clock.advance(2_500, tick);
    await control.settled();
    const rows: Sandbox[] = [];
    for (const state of ["running", "paused"] as const) rows.push(...(await store.sandboxes.inState(state)));
    for (const state of ["pausing", "resuming", "snapshotting", "killing"] as const) {
      for (const { id } of await store.sandboxes.inState(state)) this.model.faults.push(`${id} is stuck in ${state}`);
    }
    const running = rows.filter(({ state }) => state === "running").map(({ id }) => id);
    this.#compare("sandboxes", host.running, running);
    for (const row of rows.filter(({ state }) => state === "running")) {
      if (Bun.deepEquals(host.requestOf(row.id)?.egress, egressOf(row, []))) continue;
      this.model.faults.push(`${row.id} runs with other network rules than its row says`);
    }
    const named = [...rows.flatMap(({ checkpoint }) => checkpoint ?? []), ...(await store.buildsInUse.checkpoints())];
    this.#compare("checkpoints", host.checkpoints, named);
    this.model.faults.push(...host.collisions);
  }

  #compare(what: string, there: readonly string[], recorded: readonly string[]): void {
    const leaked = there.filter((each) => !recorded.includes(each));
    const lost = recorded.filter((each) => !there.includes(each));
    if (leaked.length > 0) this.model.faults.push(`${what} that nobody knows of: ${leaked.join(", ")}`);
    if (lost.length > 0) this.model.faults.push(`${what} that are gone: ${lost.join(", ")}`);
  }

  /** Real time is not involved: this much of the storm's own time. */
  async #while(ms: number): Promise<void> {
    if (ms <= 0 || this.#calm) return;
    await new Promise<void>((resolve) => void this.#fixture.clock.after(ms, resolve));
  }

  #now(): { seq: number; at: number } {
    return { seq: this.model.seq, at: this.#fixture.clock.now() };
  }

  #upTo(bound: number): number {
    return Math.floor(this.#random() * bound);
  }

  #seconds(): number {
    return this.#random() < 0.7 ? this.#upTo(2) : 1 + this.#upTo(20);
  }

  #pick<T>(from: readonly T[]): T {
    const picked = from[this.#upTo(from.length)];
    if (picked === undefined) throw new Error("nothing to pick from");
    return picked;
  }
}

/** Until nothing can proceed without the passing of time. */
async function tick(): Promise<void> {
  for (let nth = 0; nth < 3; nth++) await new Promise((resolve) => setImmediate(resolve));
}

test(`a storm of ${CALLS} calls: one winner each, nothing stuck, lost or leaked (SANDLOT_TEST_SEED=${SEED})`, async () => {
  const storm = await Storm.blow(SEED, CALLS);
  expect(storm.model.faults.slice(0, 20), `SANDLOT_TEST_SEED=${SEED}`).toEqual([]);
  // A storm of refusals alone would prove nothing.
  const successes = new Set(storm.calls.filter(({ status }) => status < 300).map(({ op }) => op));
  expect(successes.size).toBeGreaterThan(0);
  expect(successes).toEqual(new Set(storm.calls.map(({ op }) => op)));
});

describe("the model finds", () => {
  const plants: Record<string, Plant> = {
    "a pause that does not ask for the state": (store) => {
      const { beginPause, byId } = store.sandboxes;
      store.sandboxes.beginPause = async (run, to) => {
        const row = (await beginPause(run, to)) ?? (await byId(run.id));
        return row && { ...row, state: "pausing", checkpoint: to.checkpoint };
      };
    },
    "a snapshot that does not ask for the state": (store) => {
      const { beginSnapshot, byId } = store.sandboxes;
      store.sandboxes.beginSnapshot = async (run, now) => {
        const row = (await beginSnapshot(run, now)) ?? (await byId(run.id));
        return row && { ...row, state: "snapshotting" };
      };
    },
    "a kill that does not wait for who has it in hand": (store) => {
      const { kill } = store.sandboxes;
      store.sandboxes.kill = async (run) => {
        const row = await kill(run);
        return row && { ...row, state: "killing" };
      };
    },
    "a change of network rules that failed and is left half done": (store) => {
      const { byId } = store.sandboxes;
      store.sandboxes.byId = async (id) => {
        const row = await byId(id);
        return row && { ...row, egressUnsettled: false };
      };
    },
    "a pause that forgets who wants it killed": (store) => {
      const { finishPause } = store.sandboxes;
      store.sandboxes.finishPause = async (run) => {
        const row = await finishPause(run);
        return row && { ...row, state: "paused" };
      };
    },
  };

  /** Where the search begins for a plant that few storms show; a change of the storms may move it. */
  const firstSeeds: Record<string, number> = {
    "a change of network rules that failed and is left half done": 25,
  };

  test.each(Object.keys(plants))("%s", async (name) => {
    const found = [];
    const first = firstSeeds[name] ?? 1;
    // Which storm it takes is chance. Many short ones: some plants are found only in the state at the end of a storm.
    for (let seed = first; seed < first + 200 && found.length === 0; seed++) {
      found.push(...(await Storm.blow(seed, 200, plants[name])).model.faults);
    }
    expect(found).not.toEqual([]);
  });
});
