/** A sandbox as clients see it. */
import { CLIENT_ID } from "../contract/management/identifiers.ts";
import type { CreatedSandbox, ListedSandbox, SandboxDetail } from "../contract/management/sandbox.ts";
import { RUNTIME_VERSION } from "../contract/runtime-version.ts";
import type { Sandbox } from "../store/sandboxes.ts";

export function asCreated(sandbox: Sandbox): CreatedSandbox {
  return {
    templateID: sandbox.templateId,
    sandboxID: sandbox.id,
    clientID: CLIENT_ID,
    envdVersion: RUNTIME_VERSION,
    alias: sandbox.alias,
    envdAccessToken: newestToken(sandbox),
    trafficAccessToken: null,
    domain: null,
  };
}

export function asListed(sandbox: Sandbox): ListedSandbox {
  return {
    templateID: sandbox.templateId,
    sandboxID: sandbox.id,
    clientID: CLIENT_ID,
    envdVersion: RUNTIME_VERSION,
    alias: sandbox.alias,
    startedAt: new Date(sandbox.startedAt).toISOString(),
    endAt: new Date(sandbox.endAt).toISOString(),
    cpuCount: sandbox.cpuCount,
    memoryMB: sandbox.memoryMB,
    diskSizeMB: sandbox.diskSizeMB,
    state: sandbox.state === "paused" || sandbox.state === "pausing" ? "paused" : "running",
    metadata: sandbox.metadata,
    volumeMounts: [],
  };
}

export function asDetail(sandbox: Sandbox): SandboxDetail {
  return {
    ...asListed(sandbox),
    envdAccessToken: newestToken(sandbox),
    allowInternetAccess: sandbox.allowInternetAccess,
    domain: null,
    network: {},
    lifecycle: { autoResume: false, onTimeout: "kill" },
  };
}

function newestToken(sandbox: Sandbox): string | null {
  return sandbox.secure ? (sandbox.tokens.at(-1) ?? null) : null;
}
