/** Files that give the disk of a sandbox its own identity. */
import { NAMESERVER_ADDRESS, SANDBOX_ADDRESS } from "../../contract/address-plan.ts";
import { HOSTNAME } from "../../contract/hostname.ts";

/** Files of /etc that must differ between sandboxes, or must fit our network whatever the image says. */
export function identityFiles(): Record<string, string> {
  const machineId = Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString("hex");
  return {
    "machine-id": `${machineId}\n`,
    "resolv.conf": `nameserver ${NAMESERVER_ADDRESS}\n`,
    hostname: `${HOSTNAME}\n`,
    hosts: `127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n${SANDBOX_ADDRESS} ${HOSTNAME}\n`,
  };
}
