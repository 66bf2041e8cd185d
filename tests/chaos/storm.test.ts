/**
 * The storm of src/control/lifecycle/storm.test.ts on the real machine: clients fight over a few sandboxes through
 * HTTP, timeouts end, and each sandbox holds a word in memory that must survive. The same model judges every change,
 * act and response. Nothing on the machine fails here, so the host may not fail either. A bug planted in the store, a
 * kill that does not wait for the operation in progress, was found by this test.
 *
 * SANDLOT_TEST_SEED chooses what clients do, but not the outcome, which depends on timing. SANDLOT_TEST_LONG=1 extends
 * the storm to minutes.
 */
import { describe, expect, test } from "bun:test";
import { LONG } from "../../src/base/testing/long.ts";
import { SEED } from "../../src/base/testing/seed.ts";
import type { Host } from "../../src/contract/internal/host.ts";
import { RUNTIME_NAMES, type RuntimeName } from "../../src/contract/runtime-name.ts";
import { seededRandom } from "../../src/control/testing/control-fixture.ts";
import { type CallRecord, StormModel } from "../../src/control/testing/storm-model.ts";
import type { Machine } from "../../src/host/machine.ts";
import { hostWith } from "../../src/host/testing/serialised-host.ts";
import type { Sandbox } from "../../src/store/sandboxes.ts";
import type { Store } from "../../src/store/store.ts";
import { census } from "../support/census.ts";
import { RealServer } from "../support/real-server.ts";
import { newDataFolder } from "../support/server.ts";
import { until } from "../support/until.ts";
import { plantWitness, readWitness } from "./witness.ts";

const BLOW_MS = LONG ? 300_000 : 6_000;
/**
 * A storm of refusals alone would prove nothing: it goes on until each of these was seen, for so much longer at most.
 */
const SUCCESSES = ["pause 204", "resume 201", "connect 201", "fork 201", "snapshot 201", "kill 204"];
const LONGER_MS = 300_000;
const CLIENTS = 6;
const SLOTS = 3;

class Storm {
  readonly model = new StormModel();
  readonly calls: CallRecord[] = [];
  readonly #random = seededRandom(SEED);
  readonly #slots: string[] = [];
  /** The word that each sandbox holds; a copy has its original's. */
  readonly #words = new Map<string, string>();
  readonly #until = performance.now() + BLOW_MS;
  #server!: RealServer;

  static async blow(dataFolder: string, runtime: RuntimeName): Promise<Storm> {
    const storm = new Storm();
    const listeners = {
      store: (store: Store) => storm.model.listenTo(store, async () => Bun.sleep(storm.#upTo(3))),
      host: (machine: Machine) => storm.#listenTo(machine),
    };
    await using server = await RealServer.open(dataFolder, listeners, runtime);
    storm.#server = server;
    await Promise.all(Array.from({ length: CLIENTS }, () => storm.#client()));
    await storm.#settle();
    storm.model.judge(storm.calls);
    return storm;
  }

  /** The machine as control sees it; the model hears of every act and every failure. */
  #listenTo(machine: Machine): Host {
    const received = async <T>(id: string, act: () => Promise<T>): Promise<T> => {
      try {
        return await act();
      } catch (error) {
        this.model.failed(id);
        this.model.faults.push(`the host failed: ${error}, because of ${error instanceof Error ? error.cause : ""}`);
        throw error;
      }
    };
    const acts: Partial<Host> = {
      create: (request) => received("*", () => machine.create(request)),
      pause: (id, name, options) => {
        this.model.acted("pause", id, name);
        return received(id, () => machine.pause(id, name, options));
      },
      resume: (request) => {
        this.model.acted("resume", request.id, request.checkpoint);
        return received(request.id, () => machine.resume(request));
      },
      snapshot: (id, name, options) => {
        this.model.acted("snapshot", id, name);
        return received(id, () => machine.snapshot(id, name, options));
      },
      destroy: (id) => {
        this.model.acted("destroy", id);
        return received(id, () => machine.destroy(id));
      },
    };
    return hostWith(machine, acts);
  }

  async #client(): Promise<void> {
    while (!this.#isOver()) {
      await Bun.sleep(this.#upTo(60));
      await this.#call();
    }
  }

  #isOver(): boolean {
    const left = this.#until - performance.now();
    const seen = new Set(this.calls.map(({ op, status }) => `${op} ${status}`));
    return left < -LONGER_MS || (left < 0 && SUCCESSES.every((success) => seen.has(success)));
  }

  async #call(): Promise<void> {
    const slot = this.#upTo(SLOTS);
    const id = this.#slots[slot];
    const isGone = id === undefined || (await this.#server.store.sandboxes.byId(id)) === undefined;
    if (id === undefined || (isGone && this.#random() < 0.7)) return this.#create(slot);
    const memory = this.#random() < 0.9;
    const timeout = 1 + this.#upTo(4);
    const path = `/sandboxes/${id}`;
    const [op, method, target, body] = this.#pick<[string, string, string, unknown]>([
      ["read", "GET", path, undefined],
      ["kill", "DELETE", path, undefined],
      ["pause", "POST", `${path}/pause`, {}],
      ["pause", "POST", `${path}/pause`, { memory }],
      ["resume", "POST", `${path}/resume`, { timeout }],
      ["connect", "POST", `${path}/connect`, { timeout }],
      ["connect", "POST", `/v2${path}/connect`, { timeout }],
      ["timeout", "POST", `${path}/timeout`, { timeout: timeout - 1 }],
      ["refresh", "POST", `${path}/refreshes`, { duration: timeout }],
      ["fork", "POST", `${path}/fork`, { count: 1, timeout }],
      ["snapshot", "POST", `${path}/snapshots`, {}],
      ["visit", "", "", undefined],
      ["visit", "", "", undefined],
    ]);
    if (op === "visit") return this.#visit(id);
    // Without its memory it is another program that has no word.
    if (op === "pause" && !memory) this.#words.delete(id);
    await this.#ask(op, id, method, target, body);
  }

  async #ask(op: string, id: string, method: string, path: string, body: unknown): Promise<void> {
    const from = this.#now();
    const reply = await this.#server.call(method, path, body);
    const shown = op === "read" && reply.status === 200 ? reply.body.state : undefined;
    this.calls.push({ op, id, status: reply.status, shown, from, to: this.#now() });
    if (op !== "fork" || reply.status !== 201) return;
    for (const entry of reply.body as { sandbox?: { sandboxID: string } }[]) {
      if (entry.sandbox !== undefined) await this.#tryCopy(entry.sandbox.sandboxID, this.#words.get(id));
    }
  }

  /** A copy equals its original; clients do not fight over it. */
  async #tryCopy(id: string, word: string | undefined): Promise<void> {
    const output = await readWitness(this.#reachable, id);
    if (output !== undefined && word !== undefined && output.word !== word) {
      this.model.faults.push(`the copy ${id} says ${output.word}, not ${word}`);
    }
    await this.#ask("kill", id, "DELETE", `/sandboxes/${id}`, undefined);
  }

  async #visit(id: string): Promise<void> {
    const output = await readWitness(this.#reachable, id);
    const word = this.#words.get(id);
    if (
      output !== undefined &&
      word !== undefined &&
      (output.word !== word || output.file !== word || output.line !== word)
    ) {
      this.model.faults.push(`${id} says ${JSON.stringify(output)}, not ${word}`);
    }
  }

  async #create(slot: number): Promise<void> {
    const reply = await this.#server.call("POST", "/sandboxes", {
      templateID: "base",
      timeout: 4 + this.#upTo(8),
      autoPause: this.#random() < 0.6,
      autoResume: { enabled: this.#random() < 0.6 },
    });
    if (reply.status !== 201) this.model.faults.push(`create answered ${reply.status}`);
    else {
      const id: string = reply.body.sandboxID;
      // The sandbox may end during this; connecting for one more second does not postpone its end.
      const word = await plantWitness(this.#reachable, id, 1_000).catch(() => undefined);
      if (word !== undefined) this.#words.set(id, word);
      const other = this.#slots[slot];
      this.#slots[slot] = id;
      // Of two that came for the same slot, the first is not fought over any more.
      if (other !== undefined) await this.#ask("kill", other, "DELETE", `/sandboxes/${other}`, undefined);
    }
  }

  /** Operations under way end, every sandbox is at rest and unchanged, and after the last kill nothing is left. */
  async #settle(): Promise<void> {
    const { store, control, machine, data } = this.#server;
    const rowsIn = async (...states: Sandbox["state"][]) => {
      return (await Promise.all(states.map((state) => store.sandboxes.inState(state)))).flat();
    };
    await until(
      "everything is at rest",
      async () => (await rowsIn("pausing", "resuming", "snapshotting", "killing")).length === 0,
    ).catch((error) => this.model.faults.push(String(error)));
    await control.settled();
    for (const { id } of await rowsIn("running", "paused")) {
      await this.#server.call("POST", `/sandboxes/${id}/connect`, { timeout: 600 });
      await this.#visit(id);
      await this.#server.call("DELETE", `/sandboxes/${id}`);
    }
    await control.settled();
    const templates = new Set(await store.buildsInUse.checkpoints());
    const leaked = (await machine.parts.checkpoints.list()).filter((name) => !templates.has(name));
    if (leaked.length > 0) this.model.faults.push(`checkpoints that nobody knows of: ${leaked.join(", ")}`);
    let left = "";
    await until(
      () => `nothing is left: ${left}`,
      async () => {
        const { loopDevices: _shared, ...rest } = await census(data.path);
        left = JSON.stringify(rest);
        return Object.values(rest).every((count) => count === 0);
      },
    ).catch((error) => this.model.faults.push(String(error)));
  }

  get #reachable() {
    const { url, apiKey } = this.#server;
    return { server: { url, options: { apiUrl: url, sandboxUrl: url, apiKey } } };
  }

  #now(): { seq: number; at: number } {
    return { seq: this.model.seq, at: Date.now() };
  }

  #upTo(bound: number): number {
    return Math.floor(this.#random() * bound);
  }

  #pick<T>(from: readonly T[]): T {
    const picked = from[this.#upTo(from.length)];
    if (picked === undefined) throw new Error("nothing to pick from");
    return picked;
  }
}

// With runsc only in the long lane.
describe.each(LONG ? RUNTIME_NAMES : (["crun"] as const))("with %s", (runtime) => {
  test(
    `a storm on the real machine: every answer allowed, nothing stuck, lost or leaked (SANDLOT_TEST_SEED=${SEED})`,
    async () => {
      const storm = await Storm.blow(newDataFolder(`storm-${runtime}`), runtime);
      const counts = storm.calls.reduce<Record<string, number>>((sum, { op, status }) => {
        sum[`${op} ${status}`] = (sum[`${op} ${status}`] ?? 0) + 1;
        return sum;
      }, {});
      console.log(`the storm: ${storm.calls.length} calls, ${JSON.stringify(counts)}`);
      expect(storm.model.faults.slice(0, 20)).toEqual([]);
      for (const success of SUCCESSES) expect(counts[success], success).toBeGreaterThan(0);
    },
    BLOW_MS + LONGER_MS + 300_000,
  );
});
