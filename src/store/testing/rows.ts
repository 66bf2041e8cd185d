/** Complete, plausible rows for tests. */
import type { FinishedBuild } from "../builds.ts";
import type { Sandbox } from "../sandboxes.ts";
import type { Template } from "../templates.ts";

export const NOW = 1_800_000_000_000;
export const LATER = NOW + 60_000;

export function template(id: string): Template {
  return {
    id,
    teamId: null,
    public: true,
    keptReady: 0,
    wall: null,
    createdAt: NOW,
    updatedAt: NOW,
    createdBy: null,
    spawnCount: 0,
    lastSpawnedAt: null,
    buildCount: 0,
  };
}

/** Ready at once, without a checkpoint. */
export function aBuild(id: string, templateId: string, changes: Partial<FinishedBuild> = {}): FinishedBuild {
  return {
    id,
    templateId,
    generation: 0,
    tags: ["default"],
    cpuCount: 2,
    memoryMB: 1024,
    diskSizeMB: 10_240,
    image: "base",
    defaultUser: "user",
    defaultWorkdir: "/home/user",
    envVars: {},
    guestVersion: null,
    checkpoint: null,
    sourceSandbox: null,
    createdAt: NOW,
    ...changes,
  };
}

export function aSandbox(id: string, changes: Partial<Sandbox> = {}): Sandbox {
  return {
    id,
    teamId: "team-1",
    templateId: "template1",
    buildId: "build-1",
    alias: "base",
    state: "running",
    executionId: `run-${id}`,
    createdAt: NOW,
    startedAt: NOW,
    endAt: LATER,
    pausedAt: null,
    checkpoint: null,
    checkpointMemory: false,
    killWanted: false,
    pauseFailures: 0,
    timeoutSeconds: 60,
    autoPause: false,
    autoPauseMemory: true,
    autoResume: false,
    metadata: {},
    envVars: {},
    secure: true,
    tokens: [],
    allowInternetAccess: null,
    network: {},
    trafficToken: null,
    egressUnsettled: false,
    mcp: null,
    identityTokens: {},
    volumeMounts: [],
    cpuCount: 2,
    memoryMB: 1024,
    diskSizeMB: 10_240,
    guestVersion: "0.6.13",
    ...changes,
  };
}
