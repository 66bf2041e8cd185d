/**
 * Real firewalls, each in its own network, mount and pid namespaces: the doctor finds that packets are stopped, and the
 * commands of its FIX let them through. `npm test` installs the firewalls before its tests.
 */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { attempt } from "../../system/command.ts";
import type { Finding } from "./finding.ts";

const FINDING = join(import.meta.dir, "testing/firewall-finding.ts");
const TRIAL_MS = 90_000;

/** Copies of these folders, so that nothing of the machine is changed. */
const OWN_FOLDERS = `
ip link set lo up
mount -t tmpfs none /run
for folder in ufw firewalld; do
  if [ -d /etc/$folder ]; then cp -a /etc/$folder /run/etc-$folder; mount --bind /run/etc-$folder /etc/$folder; fi
done`;
const FIREWALLD = `
mkdir /run/dbus /run/firewalld
dbus-daemon --system --nofork --nopidfile &
firewalld --nofork --nopid &
for _ in $(seq 300); do firewall-cmd --state && break; sleep 0.1; done`;

interface Case {
  /** Shell commands that put up the firewall. */
  up: string;
  stops: string;
  lost: RegExp;
}

const NO_NAMES = /^sandboxes find no names, and connections that are judged by name fail$/;
const NO_OUTSIDE = /^sandboxes reach nothing outside$/;
const NEITHER = /find no names.*; sandboxes reach nothing outside$/;

const CASES: Readonly<Record<string, Case>> = {
  "an inet table that drops what is forwarded": {
    up: "nft 'table inet own { chain f { type filter hook forward priority 0; policy drop; }; }'",
    stops: "the chain inet own f stops packets of sandboxes (forward)",
    lost: NO_OUTSIDE,
  },
  "an inet table that rejects what comes in": {
    up: `nft 'table inet own { chain i { type filter hook input priority 0; policy accept; iifname "lo" accept; reject; }; }'`,
    stops: "the chain inet own i stops packets of sandboxes (input)",
    lost: NO_NAMES,
  },
  "iptables on nftables": {
    up: "iptables-nft -P INPUT DROP",
    stops: "iptables stops packets of sandboxes (input)",
    lost: NO_NAMES,
  },
  "iptables by its old interface": {
    up: "iptables-legacy -P FORWARD DROP",
    stops: "iptables-legacy stops packets of sandboxes (forward)",
    lost: NO_OUTSIDE,
  },
  "rules as Docker makes them": {
    up: "iptables -P FORWARD DROP; iptables -N DOCKER-USER; iptables -A DOCKER-USER -j RETURN; iptables -I FORWARD -j DOCKER-USER",
    stops: "Docker stops packets of sandboxes (forward)",
    lost: NO_OUTSIDE,
  },
  ufw: { up: "ufw --force enable", stops: "ufw stops packets of sandboxes (input and forward)", lost: NEITHER },
  // It admits packets redirected to the machine, such as DNS queries.
  firewalld: { up: FIREWALLD, stops: "firewalld stops packets of sandboxes (forward)", lost: NO_OUTSIDE },
};

/** The doctor's findings after each of these commands. */
async function findings(...commands: string[]): Promise<Finding[]> {
  const find = `${process.execPath} ${FINDING} /run/fix >&3`;
  const quiet = commands.map((command) => `{ ${command}\n} > /run/log 2>&1; ${find}`);
  const script = ["exec 3>&1", OWN_FOLDERS, ...quiet].join("\n");
  const own = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
  const { stdout, stderr } = await attempt([...own, "sh", "-c", script], { timeoutMs: TRIAL_MS });
  const lines = stdout.trim().split("\n");
  if (lines.length !== commands.length) throw new Error(`said ${stdout} and ${stderr}`);
  return lines.map((line) => JSON.parse(line) as Finding);
}

test.concurrent(
  "without another firewall all is well, and nothing is left",
  async () => {
    const [found, again] = await findings(
      "true",
      "test -z \"$(nft list ruleset)$(ip -o link | grep -v ' lo:')\" || exit 1",
    );
    expect(found).toEqual({
      status: "ok",
      detail: "lets packets of sandboxes through, to this machine and to the outside",
    });
    expect(again?.status).toBe("ok");
  },
  TRIAL_MS,
);

for (const [name, { up, stops, lost }] of Object.entries(CASES)) {
  test.concurrent(
    `${name}: the doctor names it, and its FIX helps`,
    async () => {
      if (name === "firewalld" && Bun.which("firewalld") === null) {
        console.error("skipped: firewalld is not installed, and installing it would start it on this machine");
        return;
      }
      const [found, after] = await findings(up, "sh /run/fix");
      if (found?.status !== "degraded") throw new Error(`found ${JSON.stringify(found)}`);
      expect(found.detail).toBe(stops);
      expect(found.lost).toMatch(lost);
      expect(after?.status).toBe("ok");
    },
    TRIAL_MS,
  );
}
