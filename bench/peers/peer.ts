/** Peer programs. The benchmark installs those that a row needs and reports unavailable ones. */
import { Fault } from "../../src/contract/fault.ts";
import { installPackages } from "../../src/setup/packages.ts";

/** The Debian package of each. None needs to run as a service. */
const PACKAGES = { podman: "podman", nginx: "nginx-light", buildah: "buildah" } as const;
export type Peer = keyof typeof PACKAGES;

/** The peer is missing or fails, so its rows are not measured. */
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

/** Installs one at a time, so that one unavailable package does not block the others. Returns why peers are missing. */
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
