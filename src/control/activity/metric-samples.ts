/**
 * Samples the metrics of all running sandboxes in one pass. The newest block of each sandbox stays in memory; it is
 * written every minute, when it is full, and when the sandbox stops. A crash loses the samples since the last write.
 */
import type { Timer } from "../../base/clock.ts";
import { SerialQueue } from "../../base/serial-queue.ts";
import type { Usage } from "../../contract/internal/host.ts";
import { MIB } from "../../contract/limit.ts";
import type { Measurable, MetricBlock, Sample } from "../../store/metric-blocks.ts";
import { METRIC_EVERY_MS } from "../limits.ts";
import type { Parts } from "../parts.ts";
import { downsampled, stepOf } from "./metric-downsampling.ts";

/** Delay before the first sample of a new sandbox. */
const METRIC_FIRST_MS = 1_000;
/** Length of a block of samples, and the interval between writes. */
export const METRIC_BLOCK_MS = 600_000;
const METRIC_WRITE_MS = 60_000;
const METRIC_BLOCKS_PER_WRITE = 32;

/** A sandbox is idle after METRIC_IDLE_MS in which it used less than this part of one processor. */
export const METRIC_IDLE_MS = 10_000;
const METRIC_IDLE_PART = 0.01;

interface Measured {
  facts: Measurable;
  cpuUsedMs: number;
  at: number;
  /** When it was last not idle. */
  activeAt: number;
  block: MetricBlock | undefined;
  isWritten: boolean;
}

interface MetricServices extends Parts {
  /** The running sandboxes, according to their rows, at each pass. */
  onPass(running: readonly Measurable[]): void;
}

export class MetricSamples {
  readonly #measured = new Map<string, Measured>();
  /** Blocks to write and then forget. */
  #finished: MetricBlock[] = [];
  #added = new Map<string, Measurable>();
  #timers: Timer[] = [];
  #lastWriteAt = 0;
  /** Sampling and writing await between steps, so they run one at a time. */
  readonly #turns = new SerialQueue();
  #closed = false;

  constructor(private readonly services: MetricServices) {}

  start(): void {
    this.#lastWriteAt = this.services.clock.now();
    this.#repeat();
  }

  /** A sandbox has begun to run. Its first sample comes soon, independent of the next pass. Never waits. */
  add(sandbox: { id: string; teamId: string; cpuCount: number; memoryMB: number }): void {
    const { id, teamId, cpuCount, memoryMB } = sandbox;
    const isFirst = this.#added.size === 0;
    this.#added.set(id, { id, teamId, cpuCount, memoryMB });
    if (!isFirst) return;
    this.#after(0, async () => {
      const newcomers = [...this.#added.values()];
      this.#added = new Map();
      await this.#begin(newcomers);
      this.#after(METRIC_FIRST_MS, () => this.#sample(newcomers));
    });
  }

  /** A sandbox no longer runs. Never waits. */
  remove(sandboxId: string): void {
    this.#added.delete(sandboxId);
    const measured = this.#measured.get(sandboxId);
    this.#measured.delete(sandboxId);
    if (measured?.block === undefined || measured.isWritten) return;
    this.#finished.push(measured.block);
    this.#after(0, () => this.#write());
  }

  /** Samples from `from` to `to`, both inclusive; undefined means unbounded. */
  async read(teamId: string, sandboxId: string, from: number | undefined, to: number | undefined): Promise<Sample[]> {
    const first = from === undefined ? 0 : from - METRIC_BLOCK_MS;
    const last = to ?? Number.MAX_SAFE_INTEGER;
    const blocks = new Map<number, MetricBlock>();
    for (const block of await this.services.store.metricBlocks.between(teamId, sandboxId, first, last)) {
      blocks.set(block.blockAt, block);
    }
    for (const block of this.#unwritten(teamId, sandboxId)) blocks.set(block.blockAt, block);
    const samples = [...blocks.values()]
      .flatMap((block) => block.samples)
      .filter(({ at }) => at >= (from ?? 0) && at <= last)
      .sort((a, b) => a.at - b.at);
    const span = (to ?? samples.at(-1)?.at ?? 0) - (from ?? samples[0]?.at ?? 0);
    const step = stepOf(span);
    return step === METRIC_EVERY_MS ? samples : downsampled(samples, step);
  }

  async newest(teamId: string, sandboxId: string): Promise<Sample | undefined> {
    const unwritten = this.#unwritten(teamId, sandboxId).at(-1)?.samples.at(-1);
    return unwritten ?? (await this.services.store.metricBlocks.newest(teamId, sandboxId))?.samples.at(-1);
  }

  /** Those of these sandboxes that are idle, the longest idle first. */
  async idle(ids: readonly string[]): Promise<string[]> {
    const now = this.services.clock.now();
    const quiet = ids.flatMap((id) => {
      const measured = this.#measured.get(id);
      return measured !== undefined && now - measured.activeAt >= METRIC_IDLE_MS ? [{ id, measured }] : [];
    });
    const times = await this.services.host.processorTimes(quiet.map(({ id }) => id));
    return quiet
      .filter(({ id, measured }) => !isActive(measured, times[id] ?? Number.POSITIVE_INFINITY, now))
      .sort((one, other) => one.measured.activeAt - other.measured.activeAt)
      .map(({ id }) => id);
  }

  /** Resolves when all samples so far are written. */
  flush(): Promise<void> {
    return this.#turns.run(() => this.#write());
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const timer of this.#timers) timer.cancel();
    await this.flush();
  }

  #unwritten(teamId: string, sandboxId: string): MetricBlock[] {
    const current = this.#measured.get(sandboxId)?.block;
    return [...this.#finished, ...(current === undefined ? [] : [current])].filter(
      (block) => block.sandboxId === sandboxId && block.teamId === teamId,
    );
  }

  #repeat(): void {
    this.#after(METRIC_EVERY_MS, async () => {
      try {
        await this.#pass();
      } finally {
        this.#repeat();
      }
    });
  }

  async #pass(): Promise<void> {
    const { store, clock, onPass } = this.services;
    const running = await store.metricBlocks.measurable();
    onPass(running);
    const ids = new Set(running.map(({ id }) => id));
    for (const id of [...this.#measured.keys()]) if (!ids.has(id)) this.remove(id);
    const isDue = (facts: Measurable) => {
      const last = this.#measured.get(facts.id);
      return last !== undefined && clock.now() - last.at >= METRIC_EVERY_MS / 2;
    };
    await this.#sample(running.filter(isDue));
    // For example sandboxes that ran before the server started.
    for (const facts of running) if (!this.#measured.has(facts.id)) this.add(facts);
    if (clock.now() - this.#lastWriteAt >= METRIC_WRITE_MS) await this.#write();
  }

  /** Reads the processor counters of new sandboxes, so that the first sample has a base. */
  async #begin(newcomers: readonly Measurable[]): Promise<void> {
    const times = await this.services.host.processorTimes(newcomers.map(({ id }) => id));
    const at = this.services.clock.now();
    for (const facts of newcomers) {
      const cpuUsedMs = times[facts.id];
      if (cpuUsedMs === undefined) continue;
      const { block, isWritten } = this.#measured.get(facts.id) ?? { block: undefined, isWritten: true };
      this.#measured.set(facts.id, { facts, cpuUsedMs, at, activeAt: at, block, isWritten });
    }
  }

  async #sample(sandboxes: readonly Measurable[]): Promise<void> {
    const usages = await this.services.host.measure(sandboxes.map(({ id }) => id));
    const at = this.services.clock.now();
    for (const { id } of sandboxes) {
      const [measured, usage] = [this.#measured.get(id), usages[id]];
      if (measured === undefined || usage === undefined) continue;
      await this.#keep(measured, sampleOf(measured, usage, at));
      if (isActive(measured, usage.cpuUsedMs, at)) measured.activeAt = at;
      measured.cpuUsedMs = usage.cpuUsedMs;
      measured.at = at;
    }
  }

  async #keep(measured: Measured, sample: Sample): Promise<void> {
    const blockAt = Math.floor(sample.at / METRIC_BLOCK_MS) * METRIC_BLOCK_MS;
    if (measured.block?.blockAt !== blockAt) {
      if (measured.block !== undefined && !measured.isWritten) this.#finished.push(measured.block);
      const { id: sandboxId, teamId } = measured.facts;
      // An earlier run or server may have begun this block, written or not.
      const unwritten = this.#finished.find((block) => block.sandboxId === sandboxId && block.blockAt === blockAt);
      const begun = unwritten ?? (await this.services.store.metricBlocks.at(sandboxId, blockAt));
      measured.block = begun ?? { sandboxId, teamId, blockAt, stepMs: METRIC_EVERY_MS, samples: [] };
    }
    measured.block.samples.push(sample);
    measured.isWritten = false;
  }

  async #write(): Promise<void> {
    const { store, clock } = this.services;
    this.#lastWriteAt = clock.now();
    const current = [...this.#measured.values()].filter(({ block, isWritten }) => block !== undefined && !isWritten);
    const finished = this.#finished;
    const blocks = [...finished, ...current.flatMap(({ block }) => block ?? [])];
    for (let at = 0; at < blocks.length; at += METRIC_BLOCKS_PER_WRITE) {
      await store.transaction(async (tables) => {
        for (const block of blocks.slice(at, at + METRIC_BLOCKS_PER_WRITE)) await tables.metricBlocks.put(block);
      }, "server");
    }
    this.#finished = this.#finished.filter((block) => !finished.includes(block));
    for (const measured of current) measured.isWritten = true;
  }

  #after(delayMs: number, work: () => Promise<void>): void {
    if (this.#closed) return;
    const timer = this.services.idleClock.after(delayMs, () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
      this.services.background.run("metrics not taken", () => this.#turns.run(work));
    });
    this.#timers.push(timer);
  }
}

function isActive({ cpuUsedMs, at }: Measured, cpuUsedNowMs: number, now: number): boolean {
  // At least of one interval: right after a sample, a few milliseconds would count as activity.
  return cpuUsedNowMs - cpuUsedMs > METRIC_IDLE_PART * Math.max(now - at, METRIC_EVERY_MS);
}

/** Counters that went back (after a restore) count as idle. */
function sampleOf({ facts, cpuUsedMs, at: since }: Measured, usage: Usage, at: number): Sample {
  const available = (at - since) * facts.cpuCount;
  const percent = available <= 0 ? 0 : (100 * (usage.cpuUsedMs - cpuUsedMs)) / available;
  const { memUsed, memCache, diskUsed, diskTotal } = usage;
  return {
    at,
    cpuCount: facts.cpuCount,
    cpuUsedPct: Math.round(Math.min(100, Math.max(0, percent)) * 100) / 100,
    memTotal: facts.memoryMB * MIB,
    memUsed,
    memCache,
    diskUsed,
    diskTotal,
  };
}
