/**
 * What Sandlot does on a stock system, step by step, through the official client. Each step makes its own sandboxes, so
 * each can run alone. Steps that stop or remove the server are last.
 */
import assert from "node:assert/strict";
import { Sandbox, type SandboxOpts, Template, Volume } from "e2b";

/** A machine with Sandlot as a service. */
export interface Subject {
  run(command: string): Promise<string>;
  succeeds(command: string): Promise<boolean>;
  url: string;
  apiKey: string;
}

export interface Step {
  name: string;
  proves: string;
  /** Returns what it saw, for the log. */
  run(machine: Subject): Promise<string>;
}

const CLIENT_MS = 1_800_000;
const SANDBOX_MS = 4 * 3_600_000;
const BACK_AGAIN_TRIES = 600;
const BACK_AGAIN_EVERY_MS = 2_000;
const MIB = 1024 ** 2;
/** An address outside, for sandboxes: it belongs to a namespace of the machine, which has no other network. */
const PEER = "11.11.11.11";

const PEER_UP = [
  "ip netns add peer && ip link add peer0 type veth peer name eth0 netns peer",
  "ip addr add 10.99.0.1/24 dev peer0 && ip link set peer0 up",
  `ip -n peer addr add 10.99.0.2/24 dev eth0 && ip -n peer addr add ${PEER}/32 dev lo`,
  "ip -n peer link set lo up && ip -n peer link set eth0 up && ip -n peer route add default via 10.99.0.1",
  `ip route add ${PEER} via 10.99.0.2`,
  `systemd-run --quiet --unit=peer ip netns exec peer python3 -m http.server --bind ${PEER} --directory /srv 80`,
  `until curl -sf -o /dev/null http://${PEER}; do sleep 1; done`,
].join(" && ");
const PEER_DOWN = "systemctl stop peer; ip route del 11.11.11.11; ip netns del peer; true";
/** Its own shell has the name in its arguments, too. */
const LEFTOVERS = `
  processes=$(ps -eo pid,args)
  ls -d /etc/sandlot /etc/systemd/system/sandlot.service /var/lib/sandlot /run/sandlot /sys/fs/cgroup/sandlot* 2> /dev/null
  nft list tables | grep sandlot
  ip -o link | grep -o 'slot[^:@]*'
  grep -o '/run/sandlot[^ ]*' /proc/mounts
  losetup --noheadings --list
  grep sandlot <<< "$processes" | grep -v "^ *$$ "
  true`;
/** Debian has one of these settings, Ubuntu the other or both. */
const RESTRICTED_USERNS: Readonly<Record<string, number>> = {
  "kernel.apparmor_restrict_unprivileged_userns": 1,
  "kernel.unprivileged_userns_clone": 0,
};
const VISIT = `curl -s -o /dev/null --max-time 60 http://${PEER} && echo reached || echo refused`;

const WATCHDOG_DROP_IN = "/etc/systemd/system/sandlot.service.d";
/** An emulated machine stalls for seconds, so not shorter. */
const SHORT_WATCHDOG = [
  `mkdir ${WATCHDOG_DROP_IN} && printf '[Service]\\nWatchdogSec=120\\n' > ${WATCHDOG_DROP_IN}/watchdog.conf`,
  "systemctl daemon-reload && systemctl restart sandlot",
].join(" && ");
const USUAL_WATCHDOG = `rm -r ${WATCHDOG_DROP_IN} && systemctl daemon-reload && systemctl restart sandlot`;
/** Stops the server, and waits until systemd runs another. */
const HANG = [
  "before=$(systemctl show -P MainPID sandlot) && kill -STOP $before",
  'until [ -n "$(systemctl show -P MainPID sandlot | grep -vx -e 0 -e $before)" ]; do sleep 2; done',
].join(" && ");

function client({ url, apiKey }: Subject) {
  return {
    apiKey,
    apiUrl: url,
    sandboxUrl: url,
    domain: "sandlot.localhost:3000",
    requestTimeoutMs: CLIENT_MS,
    timeoutMs: SANDBOX_MS,
  };
}

async function withSandbox(
  machine: Subject,
  use: (sandbox: Sandbox) => Promise<string>,
  options: SandboxOpts = {},
): Promise<string> {
  const sandbox = await Sandbox.create({ ...client(machine), ...options });
  try {
    return await use(sandbox);
  } finally {
    await sandbox.kill({ requestTimeoutMs: CLIENT_MS }).catch(() => undefined);
  }
}

async function output(sandbox: Sandbox, command: string): Promise<string> {
  const { stdout } = await sandbox.commands.run(command, { timeoutMs: CLIENT_MS, requestTimeoutMs: CLIENT_MS });
  return stdout.trim();
}

/** The value of a file of the sandbox's cgroup, as the machine sees it. */
async function limit(machine: Subject, sandbox: Sandbox, file: string): Promise<string> {
  return (await machine.run(`cat /sys/fs/cgroup/sandlot/*/${sandbox.sandboxId}/${file}`)).trim();
}

/** Fails unless the kernel has the size of a sandbox as its limits, and kills what uses more memory. */
async function requireLimits(machine: Subject, sandbox: Sandbox): Promise<string> {
  const { cpuCount, memoryMB } = await sandbox.getInfo({ requestTimeoutMs: CLIENT_MS });
  assert.equal(await limit(machine, sandbox, "memory.max"), String(memoryMB * MIB));
  assert.equal(await limit(machine, sandbox, "cpu.max"), `${cpuCount * 100_000} 100000`);
  assert.equal(await limit(machine, sandbox, "pids.max"), "4096");
  const eater = `python3 -c 'x = bytearray(${memoryMB + 64} << 20)' 2> /dev/null; echo $?`;
  assert.match(await output(sandbox, eater), /^(1|137)$/);
  const kills = /oom_kill (\d+)/.exec(await limit(machine, sandbox, "memory.events"))?.[1];
  assert.ok(Number(kills) > 0, "the kernel killed no process in the sandbox");
  return `${memoryMB} MB, ${kills} killed`;
}

/** Starts processes until the kernel refuses one, and returns how many. */
async function startProcesses(sandbox: Sandbox): Promise<number> {
  const lines = ["import os, time", "n = 0", "try:", " while n < 5000:", "  if os.fork() == 0: time.sleep(3600)"];
  const program = [...lines, "  n += 1", "except OSError: pass", "print(n, flush=True)"].join("\n");
  const printed = await output(sandbox, `python3 -c '${program}'; pkill -9 python3; true`);
  return Number(printed.split("\n")[0]);
}

const COUNT_ONCE = "n=$((n+1)); echo $n > /tmp/next; mv /tmp/next /tmp/count; sleep 0.2";
const COUNTER = `nohup sh -c 'n=0; while :; do ${COUNT_ONCE}; done' > /dev/null 2>&1 &`;

async function count(sandbox: Sandbox): Promise<number> {
  return Number(await output(sandbox, "sleep 1; cat /tmp/count"));
}

/** The counter is the same process as before, and goes on. */
async function requireCounting(sandbox: Sandbox, before: number): Promise<number> {
  const after = await count(sandbox);
  assert.ok(after > before, `the counter stood at ${before} and stands at ${after}`);
  return after;
}

async function isBack(machine: Subject): Promise<void> {
  for (let tries = 0; tries < BACK_AGAIN_TRIES; tries++) {
    const response = await fetch(`${machine.url}/sandboxes`).catch(() => undefined);
    if (response?.status === 401) return;
    await Bun.sleep(BACK_AGAIN_EVERY_MS);
  }
  throw new Error("the server did not come back");
}

const connect = (machine: Subject, { sandboxId }: Sandbox) => Sandbox.connect(sandboxId, client(machine));

/** Does something to the server while a sandbox counts. */
async function survives(machine: Subject, deed: string): Promise<string> {
  return await withSandbox(machine, async (sandbox) => {
    await output(sandbox, COUNTER);
    const before = await count(sandbox);
    await machine.run(deed);
    await isBack(machine);
    const again = await connect(machine, sandbox);
    const after = await requireCounting(again, before);
    const size = await limit(machine, again, "memory.max");
    assert.notEqual(size, "max");
    return `counter ${before}, then ${after}; memory.max ${size}`;
  });
}

/** Replaces the installed package by one of another version, as npm does: the files of the running one are deleted. */
function putVersion(version: string): string {
  const next = "/usr/local/lib/node_modules/.sandlot-next";
  const installed = "/usr/local/lib/node_modules/sandlot";
  const edited = `sed -i 's/"version": "[^"]*"/"version": "${version}"/' ${next}/package.json`;
  return `cp -a ${installed} ${next} && ${edited} && rm -r ${installed} && mv ${next} ${installed}`;
}

/** The version and process of the server that runs, not of the installed program. */
async function serverOf(machine: Subject): Promise<{ version: string | undefined; pid: string | undefined }> {
  const [, version, pid] = /Sandlot ([^ ,]+), pid (\d+)/.exec(await machine.run("sandlot status")) ?? [];
  return { version, pid };
}

/** Empty: the kernel has no AppArmor. */
async function appArmorOf(machine: Subject): Promise<string> {
  return (await machine.run("cat /sys/module/apparmor/parameters/enabled 2> /dev/null; true")).trim();
}

export const STEPS: readonly Step[] = [
  {
    name: "doctor",
    proves: "every prerequisite works on this system",
    async run(machine) {
      const report = await machine.run("sandlot doctor; true");
      const problems = report.split("\n").filter((line) => /^(broken|timeout)/.test(line));
      assert.deepEqual(problems, []);
      const appArmor = await appArmorOf(machine);
      assert.ok(["", "Y"].includes(appArmor), `the kernel has AppArmor, but it is not enabled: ${appArmor}`);
      const degraded = report.split("\n").filter((line) => line.startsWith("degraded"));
      const seen = degraded.map((line) => line.split(":")[0]).join(", ") || "all ok";
      return `${seen}; ${appArmor === "" ? "no AppArmor" : "AppArmor enabled"}`;
    },
  },
  {
    name: "limits",
    proves: "the kernel enforces memory, processes and processors of a sandbox",
    async run(machine) {
      return await withSandbox(machine, async (sandbox) => {
        const seen = await requireLimits(machine, sandbox);
        const started = await startProcesses(sandbox);
        assert.ok(started > 100 && started < 4096, `${started} processes were started`);
        await output(sandbox, "for i in 1 2 3 4 5 6; do timeout 20 sh -c 'while :; do :; done' & done; wait; true");
        const throttled = /nr_throttled (\d+)/.exec(await limit(machine, sandbox, "cpu.stat"))?.[1];
        return `${seen}; ${started} of 5000 processes; processors throttled ${throttled} times`;
      });
    },
  },
  {
    name: "pause",
    proves: "a paused sandbox resumes with its processes and its limits",
    async run(machine) {
      return await withSandbox(machine, async (sandbox) => {
        await output(sandbox, COUNTER);
        const before = await count(sandbox);
        await sandbox.pause({ requestTimeoutMs: CLIENT_MS });
        const again = await connect(machine, sandbox);
        await requireCounting(again, before);
        return await requireLimits(machine, again);
      });
    },
  },
  {
    name: "copies",
    proves: "forks and snapshots have the memory and files of their original",
    async run(machine) {
      return await withSandbox(machine, async (sandbox) => {
        await output(sandbox, `echo kept > note; ${COUNTER}`);
        const before = await count(sandbox);
        const [fork] = await sandbox.fork({ timeoutMs: SANDBOX_MS, requestTimeoutMs: CLIENT_MS });
        if (!(fork instanceof Sandbox)) throw fork ?? new Error("no fork");
        await requireCounting(fork, before);
        const { snapshotId } = await sandbox.createSnapshot({ requestTimeoutMs: CLIENT_MS });
        const copy = await Sandbox.create(snapshotId, client(machine));
        await requireCounting(copy, before);
        assert.equal(await output(copy, "cat note"), "kept");
        await Promise.all([fork, copy].map((each) => each.kill({ requestTimeoutMs: CLIENT_MS })));
        return "one fork, one sandbox of a snapshot";
      });
    },
  },
  {
    name: "wake",
    proves: "a request to the URL of a paused sandbox wakes it",
    async run(machine) {
      const lifecycle = { onTimeout: "pause", autoResume: true } as const;
      return await withSandbox(
        machine,
        async (sandbox) => {
          await output(sandbox, "nohup python3 -m http.server 8000 > /dev/null 2>&1 & sleep 20");
          await sandbox.pause({ requestTimeoutMs: CLIENT_MS });
          const host = `8000-${sandbox.sandboxId}.sandlot.localhost`;
          const response = await fetch(machine.url, { headers: { Host: host } });
          assert.equal(response.status, 200);
          return `answered ${response.status} after a pause`;
        },
        { lifecycle },
      );
    },
  },
  {
    name: "rules",
    proves: "network rules and the isolation from the machine hold",
    async run(machine) {
      await machine.run(PEER_UP);
      try {
        const open = await withSandbox(machine, async (sandbox) => {
          assert.equal(await output(sandbox, VISIT), "reached");
          assert.equal(await output(sandbox, VISIT.replace(PEER, "10.99.0.2")), "refused");
          assert.equal(await output(sandbox, VISIT.replace(`http://${PEER}`, "http://10.0.2.15:22")), "refused");
          await sandbox.updateNetwork({ denyOut: [`${PEER}/32`] }, { requestTimeoutMs: CLIENT_MS });
          return await output(sandbox, VISIT);
        });
        assert.equal(open, "refused");
        const closed = await withSandbox(machine, (sandbox) => output(sandbox, VISIT), { allowInternetAccess: false });
        assert.equal(closed, "refused");
        return "outside reached; denied address, machine and its networks refused";
      } finally {
        await machine.run(PEER_DOWN);
      }
    },
  },
  {
    name: "volumes",
    proves: "a volume outlives its sandbox",
    async run(machine) {
      const volume = await Volume.create(`vm-${Date.now()}`, client(machine));
      const volumeMounts = { "/mnt/data": volume };
      await withSandbox(machine, (sandbox) => output(sandbox, "echo kept > /mnt/data/note"), { volumeMounts });
      const kept = await withSandbox(machine, (sandbox) => output(sandbox, "cat /mnt/data/note"), { volumeMounts });
      assert.equal(kept, "kept");
      await Volume.destroy(volume.volumeId, client(machine));
      return kept;
    },
  },
  {
    name: "build",
    proves: "a template is built and started",
    async run(machine) {
      const name = `vm-${Date.now()}`;
      const template = Template().fromTemplate("base").runCmd("echo built > /home/user/note");
      await Template.build(template, name, { ...client(machine), cpuCount: 1, memoryMB: 512 });
      const sandbox = await Sandbox.create(name, client(machine));
      assert.equal(await output(sandbox, "cat /home/user/note"), "built");
      await output(sandbox, "for i in 1 2; do timeout 30 sh -c 'while :; do :; done' & done; wait; true");
      const throttled = Number(/nr_throttled (\d+)/.exec(await limit(machine, sandbox, "cpu.stat"))?.[1]);
      assert.ok(throttled > 0, "one processor was not enforced");
      await sandbox.kill({ requestTimeoutMs: CLIENT_MS });
      return `built; one processor enforced ${throttled} times`;
    },
  },
  {
    name: "userns",
    proves: "sandboxes start where unprivileged programs may not make user namespaces, as on Ubuntu",
    async run(machine) {
      const applied = new Map<string, string>();
      try {
        for (const [name, value] of Object.entries(RESTRICTED_USERNS)) {
          if (!(await machine.succeeds(`sysctl -n ${name}`))) continue;
          const before = (await machine.run(`sysctl -n ${name}`)).trim();
          if (await machine.succeeds(`sysctl -q -w ${name}=${value}`)) applied.set(name, before);
        }
        assert.ok(applied.size > 0, "this kernel has neither setting");
        const user = "setpriv --reuid=nobody --clear-groups unshare --user true";
        assert.ok(!(await machine.succeeds(user)), "the setting restricts nobody");
        await withSandbox(machine, (sandbox) => output(sandbox, "true"));
      } finally {
        for (const [name, before] of applied) await machine.run(`sysctl -q -w ${name}=${before}`);
      }
      return [...applied.keys()].map((name) => `${name}=${RESTRICTED_USERNS[name]}`).join(", ");
    },
  },
  {
    name: "ufw",
    proves: "with ufw the doctor names the commands that let sandboxes through, and they work",
    async run(machine) {
      await machine.run(`${PEER_UP} && ufw allow 22/tcp && ufw allow 3000/tcp && ufw --force enable`);
      try {
        const report = await machine.run("sandlot doctor; true");
        const firewall = report.split("\n").findIndex((line) => / firewall:/.test(line));
        assert.match(
          report
            .split("\n")
            .slice(firewall, firewall + 3)
            .join("\n"),
          /ufw allow in on slot\+/,
        );
        await machine.run("ufw allow in on slot+ && ufw route allow in on slot+");
        const visit = await withSandbox(machine, (sandbox) => output(sandbox, VISIT));
        assert.equal(visit, "reached");
      } finally {
        await machine.run(`ufw --force reset; ufw disable; ${PEER_DOWN}`);
      }
      return "named, then open";
    },
  },
  {
    name: "daemon-reload",
    proves: "systemd leaves the cgroups of sandboxes alone",
    run: (machine) => survives(machine, "systemctl daemon-reload && systemctl daemon-reexec"),
  },
  {
    name: "stop",
    proves: "sandboxes keep running while the service is stopped, and are served after a start",
    run: (machine) => survives(machine, "systemctl stop sandlot && sleep 10 && systemctl start sandlot"),
  },
  {
    name: "restart",
    proves: "a restart of the service keeps sandboxes",
    run: (machine) => survives(machine, "systemctl restart sandlot"),
  },
  {
    name: "kill",
    proves: "systemd restarts a killed server, which adopts its sandboxes",
    run: (machine) => survives(machine, "systemctl kill --signal=KILL sandlot && sleep 5"),
  },
  {
    name: "watchdog",
    proves: "systemd restarts a server that hangs, which adopts its sandboxes",
    async run(machine) {
      await machine.run(SHORT_WATCHDOG);
      await isBack(machine);
      try {
        return await survives(machine, HANG);
      } finally {
        await machine.run(USUAL_WATCHDOG);
      }
    },
  },
  {
    name: "upgrade",
    proves: "`sandlot install` of another version replaces the server and keeps sandboxes",
    async run(machine) {
      const [before, to] = [await serverOf(machine), "99.0.0"];
      const seen = await survives(machine, `${putVersion(to)} && sandlot install`);
      const after = await serverOf(machine);
      assert.equal(after.version, to);
      assert.ok(before.pid !== undefined && after.pid !== undefined);
      assert.notEqual(after.pid, before.pid);
      return `${before.version}, then ${to}; ${seen}`;
    },
  },
  {
    name: "uninstall",
    proves: "`sandlot uninstall --data` leaves nothing behind",
    async run(machine) {
      await Sandbox.create(client(machine));
      await machine.run("sandlot uninstall --data");
      const left = await machine.run(LEFTOVERS);
      assert.equal(left.trim(), "", "uninstall left something behind");
      return "nothing is left";
    },
  },
];
