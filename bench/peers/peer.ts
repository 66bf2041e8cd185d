/** Programs that stand beside ours. One that a row needs is installed; one that cannot be had is named. */
import { Fault } from "../../src/contract/fault.ts";
import { installPackages } from "../../src/setup/packages.ts";

/** With the Debian package of each. None of them has to be started as a service. */
const PACKAGES = { podman: "podman", nginx: "nginx-light", buildah: "buildah" } as const;
export type Peer = keyof typeof PACKAGES;

/** It is not there, or does not do what it was asked to: what stands beside it is not measured. */
export class PeerFault extends Fault {
  constructor(peer: Peer, reason: string) {
    super(500, `${peer} cannot run here: ${reason}`);
  }
}

export function findPeer(peer: Peer): string {
  const program = Bun.which(peer);
  if (program === null) throw new PeerFault(peer, `it is missing. FIX: ${installCommand(peer)}`);
  return program;
}

/** One after the other, so that one that cannot be had keeps none of the others away. Answers why those are missing. */
export async function installPeers(
  peers: readonly Peer[],
  progress: (line: string) => void,
): Promise<Partial<Record<Peer, string>>> {
  const missing: Partial<Record<Peer, string>> = {};
  for (const peer of new Set(peers)) {
    try {
      await installPackages(progress, { [peer]: PACKAGES[peer] });
    } catch (failure) {
      missing[peer] = failure instanceof Error ? failure.message : String(failure);
    }
  }
  return missing;
}

function installCommand(peer: Peer): string {
  return `apt-get install -y --no-install-recommends ${PACKAGES[peer]}`;
}
