/** Files that give the disk of a sandbox its own identity. */
import { randomHex } from "../../base/random-hex.ts";
import { NAMESERVER_ADDRESS, SANDBOX_ADDRESS } from "../../contract/address-plan.ts";
import { HOSTNAME } from "../../contract/hostname.ts";

const MACHINE_ID_BYTES = 16;

/** Files of /etc that must differ between sandboxes, or must fit our network whatever the image says. */
export function identityFiles(): Record<string, string> {
  const machineId = randomHex(MACHINE_ID_BYTES);
  return {
    "machine-id": `${machineId}\n`,
    "resolv.conf": `nameserver ${NAMESERVER_ADDRESS}\n`,
    hostname: `${HOSTNAME}\n`,
    hosts: `127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n${SANDBOX_ADDRESS} ${HOSTNAME}\n`,
  };
}
