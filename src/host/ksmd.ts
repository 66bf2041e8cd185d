/**
 * Runs ksmd, the kernel's page merging, while the memory of sandboxes that share it changes, and stops it when a scan
 * finds nothing new. Merged pages stay merged while it rests.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { described, type Log } from "../base/log.ts";
import type { SandboxKind } from "../contract/internal/host.ts";
import { memoryInUse } from "../system/cgroup/memory-in-use.ts";
import { ksmdPid, MERGING_FOLDER } from "../system/page-merging.ts";
import { processMs } from "../system/thread-times.ts";
import { KsmdShare } from "./ksmd-share.ts";

const LOOK_MS = 1_000;
/** Taken as ksmd's processor time where its own is not visible. */
const PAGE_MS = 0.02;
/** Scans without progress before a rest: ksmd leaves pages that it could not merge out of up to eight later scans. */
const SCANS_MIN = 10;
/** The part of the merged pages by which a scan must raise them to count as progress. */
const PROGRESS_PART = 0.01;
/** Changes of the sandboxes' memory that wake ksmd. */
const WAKE_PART = 0.02;
const WAKE_BYTES = 32 * 1024 ** 2;

interface KsmdParts {
  /** The parent cgroup of all sandboxes. */
  cgroup: string;
  /** Undefined: nothing is ever merged. */
  ksmd: Ksmd | undefined;
  log: Log;
}

export interface Ksmd {
  /** The part of one processor that it may use. */
  maxPercent: number;
  /** Sets it up and starts it; false: it runs as the operator has set it up. */
  start(): boolean;
}

export class KsmdControl {
  #timer: Timer | undefined;
  #isForeign = false;
  /** A sandbox has started since the last look. ksmd would slow the request that started it. */
  #hasNews = false;
  /** Scans and merged pages at the last look that saw a change; undefined while it rests. */
  #scanning: { scans: number; merged: number } | undefined;
  #restingBytes = 0;
  #share: KsmdShare | undefined;
  #pid: number | undefined;
  /** Changes of `run`, one after another. Each waits in the kernel until ksmd has ended its step. */
  #changes = Promise.resolve();

  constructor(private readonly parts: KsmdParts) {}

  /** To be called when a sandbox of this kind has started. */
  note({ sharesMemory }: SandboxKind): void {
    const { ksmd } = this.parts;
    if (!sharesMemory || ksmd === undefined || this.#isForeign) return;
    this.#hasNews = true;
    if (this.#timer !== undefined) return;
    this.#guarded(() => {
      this.#isForeign = !ksmd.start();
      if (this.#isForeign) return;
      this.#share = new KsmdShare(ksmd.maxPercent);
      this.#pid = ksmdPid();
      this.#scanning = { scans: counter("full_scans"), merged: counter("pages_sharing") };
      this.#timer = setInterval(() => this.#guarded(() => this.#look()), LOOK_MS);
      this.#timer.unref();
    });
  }

  /** ksmd rests from now on; merged pages stay merged. */
  async close(): Promise<void> {
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    this.#run(false);
    await this.#changes;
  }

  #look(): void {
    if (this.#hasNews) {
      this.#hasNews = false;
      this.#wake();
    }
    if (this.#scanning === undefined) {
      const bytes = memoryInUse(this.parts.cgroup);
      const changed = Math.abs(bytes - this.#restingBytes);
      if (changed > Math.max(WAKE_BYTES, this.#restingBytes * WAKE_PART)) this.#wake();
      return;
    }
    this.#holdShare();
    // Another server may have let it rest.
    if (counter("run") === 0) this.#run(true);
    const merged = counter("pages_sharing");
    const isProgress = merged > this.#scanning.merged * (1 + PROGRESS_PART);
    if (isProgress) this.#scanning = { scans: counter("full_scans"), merged };
    else if (counter("full_scans") >= this.#scanning.scans + SCANS_MIN) this.#rest();
  }

  #wake(): void {
    if (this.#scanning === undefined) this.#run(true);
    this.#scanning = { scans: counter("full_scans"), merged: counter("pages_sharing") };
  }

  #rest(): void {
    this.#run(false);
    this.#scanning = undefined;
    this.#restingBytes = memoryInUse(this.parts.cgroup);
  }

  #holdShare(): void {
    const pages = counter("pages_scanned");
    const cpuMs = this.#pid === undefined ? pages * PAGE_MS : processMs(this.#pid);
    if (cpuMs === undefined) return;
    const sleepMs = this.#share?.sleepMs({ cpuMs, pages, pagesPerStep: counter("pages_to_scan") });
    if (sleepMs !== undefined) writeFileSync(join(MERGING_FOLDER, "sleep_millisecs"), String(sleepMs));
  }

  #run(runs: boolean): void {
    this.#changes = this.#changes
      .then(() => writeFile(join(MERGING_FOLDER, "run"), runs ? "1" : "0"))
      .catch((error) => this.#logFailure(error));
  }

  #guarded(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#logFailure(error);
    }
  }

  #logFailure(error: unknown): void {
    this.parts.log.write({ level: "error", event: "page merging could not be controlled", error: described(error) });
  }
}

function counter(name: string): number {
  return Number(readFileSync(join(MERGING_FOLDER, name), "utf8"));
}
