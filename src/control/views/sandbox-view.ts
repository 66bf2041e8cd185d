/** Converts sandboxes into their API responses. */
import { CLIENT_ID } from "../../contract/management/identifiers.ts";
import type { ShownNetwork } from "../../contract/management/network.ts";
import type { CreatedSandbox, ListedSandbox, SandboxDetail } from "../../contract/management/sandbox.ts";
import type { ListedSandboxRow, Sandbox, SandboxNetwork } from "../../store/sandboxes.ts";
import { shownState } from "../lifecycle/sandbox-status.ts";

export function asCreated(sandbox: Sandbox): CreatedSandbox {
  return {
    templateID: sandbox.templateId,
    sandboxID: sandbox.id,
    clientID: CLIENT_ID,
    envdVersion: sandbox.guestVersion,
    alias: sandbox.alias,
    envdAccessToken: newestToken(sandbox),
    trafficAccessToken: sandbox.trafficToken,
    domain: null,
  };
}

/** Clients know the states running and paused. A paused sandbox ended when it was paused. */
export function asListed(sandbox: ListedSandboxRow, now: number): ListedSandbox {
  const state = shownState(sandbox, now) ?? "running";
  return {
    templateID: sandbox.templateId,
    sandboxID: sandbox.id,
    clientID: CLIENT_ID,
    envdVersion: sandbox.guestVersion,
    alias: sandbox.alias,
    startedAt: new Date(sandbox.startedAt).toISOString(),
    endAt: new Date(state === "paused" ? (sandbox.pausedAt ?? sandbox.endAt) : sandbox.endAt).toISOString(),
    cpuCount: sandbox.cpuCount,
    memoryMB: sandbox.memoryMB,
    diskSizeMB: sandbox.diskSizeMB,
    state,
    metadata: sandbox.metadata,
    volumeMounts: sandbox.volumeMounts.map(({ name, path }) => ({ name, path })),
  };
}

export function asDetail(sandbox: Sandbox, now: number): SandboxDetail {
  return {
    ...asListed(sandbox, now),
    envdAccessToken: newestToken(sandbox),
    allowInternetAccess: sandbox.allowInternetAccess,
    domain: null,
    network: asShown(sandbox.network),
    lifecycle: { autoResume: sandbox.autoResume, onTimeout: sandbox.autoPause ? "pause" : "kill" },
  };
}

/** The network as the client sent it, without the proxy's password. */
function asShown({ allowPublicTraffic = true, egressProxy, ...sent }: SandboxNetwork): ShownNetwork {
  const { address, username } = egressProxy ?? {};
  const proxy =
    address === undefined ? {} : { egressProxy: username === undefined ? { address } : { address, username } };
  return { allowPublicTraffic, ...sent, ...proxy };
}

function newestToken(sandbox: Sandbox): string | null {
  return sandbox.secure ? (sandbox.tokens.at(-1) ?? null) : null;
}
