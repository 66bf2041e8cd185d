/** What makes the disk of a sandbox its own. */
import { chownSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { NAMESERVER_ADDRESS, SANDBOX_ADDRESS } from "../network/address-plan.ts";
import { HOSTNAME } from "../network/hostname.ts";

/** Files that must differ between sandboxes, or fit our network whatever the image says. The disk is fresh and ours. */
export function writeIdentity(etc: string, owner: number): void {
  const machineId = Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString("hex");
  const files: Record<string, string> = {
    "machine-id": `${machineId}\n`,
    "resolv.conf": `nameserver ${NAMESERVER_ADDRESS}\n`,
    hostname: `${HOSTNAME}\n`,
    hosts: `127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n${SANDBOX_ADDRESS} ${HOSTNAME}\n`,
  };
  mkdirSync(etc, { mode: 0o755 });
  chownSync(etc, owner, owner);
  for (const [name, content] of Object.entries(files)) {
    const path = join(etc, name);
    writeFileSync(path, content, { mode: 0o644 });
    chownSync(path, owner, owner);
  }
}
