/** Sandlot as a service of the machine: installed, and removed without a trace. */
import assert from "node:assert/strict";
import type { Machine } from "./machine.ts";

/** The address at which QEMU forwards requests of the exercise. */
const LISTEN = "0.0.0.0:3000";

export async function installService(machine: Machine, timeFactor: number): Promise<void> {
  const settings = JSON.stringify({ listen: LISTEN, timeFactor, ready: 0 });
  await machine.run(`mkdir -p /etc/sandlot && echo '${settings}' > /etc/sandlot/config.json && sandlot install`);
}

export async function requireRemoved(machine: Machine): Promise<void> {
  await machine.run("sandlot uninstall --data");
  const left = await machine.run(`
    ls -d /etc/sandlot /etc/systemd/system/sandlot.service /var/lib/sandlot /run/sandlot /sys/fs/cgroup/sandlot* 2> /dev/null
    nft list tables | grep sandlot
    ip -o link | grep -o 'slot[^:@]*'
    grep -o '/run/sandlot[^ ]*' /proc/mounts
    losetup --noheadings --list
    ps -eo args | grep '[s]andlot'
    true`);
  assert.equal(left.trim(), "", "uninstall left something behind");
}
