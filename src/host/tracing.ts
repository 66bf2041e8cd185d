/** Names the calls of this module that are steps, for `sandlot trace` and for spans, and measures their CPU time. */
import { recordCalls, recordSteps, type Step, type Uses } from "../base/steps.ts";
import { Disks } from "../images/disk/disks.ts";
import { Checkpoints } from "../sandbox/checkpoint/checkpoints.ts";
import { Checkpointing } from "../sandbox/checkpointing.ts";
import { Endings } from "../sandbox/endings.ts";
import { GuestClient } from "../sandbox/guest-link/guest-client.ts";
import { GuestPages } from "../sandbox/guest-link/guest-pages.ts";
import { Network } from "../sandbox/network/network.ts";
import { Criu } from "../sandbox/runtime/crun/criu.ts";
import { CriuDump } from "../sandbox/runtime/crun/criu-dump.ts";
import { Crun } from "../sandbox/runtime/crun/crun.ts";
import { CrunRuntime } from "../sandbox/runtime/crun/crun-runtime.ts";
import { Starting } from "../sandbox/starting.ts";
import { UsageMeter } from "../sandbox/usage.ts";
import { VolumeMounts } from "../sandbox/volume-mounts.ts";
import type { MountJob } from "../system/mount/mount-job.ts";
import { Mounts } from "../system/mount/mounts.ts";
import { Firewall } from "../system/net/nft.ts";
import { type Thread, threadMs, threads } from "../system/thread-times.ts";
import { Machine } from "./machine.ts";
import { TemplateSandboxes } from "./template-sandboxes.ts";

/** Bun's name for threads that run our programs. */
const WORKER_THREAD = "Worker";
const THREADS_KNOWN_MS = 1_000;

/**
 * To be called once per process. `write` gets each step when it is over. With the cgroup of all sandboxes, steps have
 * their use of processors; without it, only steps of traces are recorded.
 */
export function traceHost(write: (step: Step) => void, cgroup?: string): void {
  nameSteps();
  recordSteps({ ...(cgroup !== undefined && { read: processorTimes(cgroup) }), write });
}

function nameSteps(): void {
  recordCalls(Machine.prototype, {
    create: "host: create",
    pause: "host: pause",
    resume: "host: resume",
    snapshot: "host: snapshot",
    destroy: "host: destroy",
    removeCheckpoint: "host: remove the checkpoint",
    adopt: "host: adopt",
  });
  recordCalls(TemplateSandboxes.prototype, { create: "of its template" });
  recordCalls(Starting.prototype, {
    bootFor: "boot",
    startAhead: "start one ahead",
    fromCheckpoint: "start from the checkpoint",
    handOver: "hand over",
  });
  recordCalls(Checkpointing.prototype, { write: "write the checkpoint" });
  recordCalls(Checkpoints.prototype, {
    makeLasting: "fsync of the checkpoint",
    commit: "name the checkpoint",
    requireIntact: "check that the image is whole",
    remove: "remove a checkpoint",
    keepOnly: "remove unowned checkpoints",
  });
  recordCalls(Endings.prototype, { end: "remove", endById: "end", reap: "remove unowned sandboxes" });
  recordCalls(VolumeMounts.prototype, { mapTo: "volumes" });
  recordCalls(Disks.prototype, {
    attach: "disk",
    attachCopy: "disk: a copy",
    releaseMounts: "disk: release",
    remove: "disk: remove",
  });
  recordCalls(Mounts.prototype, {
    doAll: (jobs: readonly MountJob[]) => `mount worker: ${jobs.map(({ kind }) => kind).join(", ")}`,
  });
  recordCalls(GuestPages.prototype, { hold: "pages of the guest" });
  recordCalls(GuestClient.prototype, {
    ready: "guest: until it answers",
    readyWith: "guest: until it has its settings",
    configure: "guest: settings",
    settle: "guest: until it has taken its settings",
  });
  recordCalls(Network.prototype, {
    setEgress: "network: rules",
    plug: "network: plug in",
    settle: "network: settle",
    unplug: "network: unplug",
    free: "network: free the slot",
    open: "network: open",
    admitAll: "network: admit all",
    removeInterfaces: "network: remove interfaces",
  });
  recordCalls(Firewall.prototype, { run: "network: firewall" });
  recordCalls(CrunRuntime.prototype, {
    create: "runtime: create",
    start: "runtime: start",
    checkpoint: "runtime: stop",
    wipeForCopies: "runtime: wipe for copies",
    restore: "runtime: restore",
    remove: "runtime: remove",
  });
  recordCalls(Crun.prototype, { remove: "crun delete" });
  recordCalls(Criu.prototype, { restore: "CRIU restore" });
  recordCalls(CriuDump.prototype, { write: "CRIU dump", release: "CRIU release" });
}

/**
 * CPU times of the server's own thread, its workers, Bun's other threads (collector, compiler, file access), and all
 * sandboxes. The code that runs a program records the program's time itself.
 */
function processorTimes(cgroup: string): () => Uses {
  const sandboxes = new UsageMeter();
  let known = ownThreads();
  let knownAt = performance.now();
  return () => {
    // Listing threads takes longer than some steps.
    if (performance.now() - knownAt > THREADS_KNOWN_MS) {
      known = ownThreads();
      knownAt = performance.now();
    }
    const uses = { server: 0, workers: 0, runtime: 0, sandboxes: sandboxesMs(sandboxes, cgroup) };
    const { user, system } = process.cpuUsage();
    for (const thread of known) uses[thread.isFirst ? "server" : "workers"] += threadMs(thread);
    uses.runtime = (user + system) / 1000 - uses.server - uses.workers;
    return uses;
  };
}

function ownThreads(): Thread[] {
  return threads().filter(({ isFirst, name }) => isFirst || name === WORKER_THREAD);
}

function sandboxesMs(meter: UsageMeter, cgroup: string): number {
  try {
    return meter.cpuUsedMs(cgroup);
  } catch {
    // There has been no sandbox yet.
    return 0;
  }
}
