/**
 * `npm run vm -- SYSTEM [STEP …]`: makes a stock system in QEMU, installs Sandlot as a service, and runs the exercise.
 * Snapshots of the machine keep what takes minutes: `booted`, and `installed` with today's Sandlot. With steps, only
 * these run, from `installed`. With the step `shell`, the machine waits for ssh instead.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { described } from "../../src/base/log.ts";
import { loadConfig } from "../../src/cli/settings/config.ts";
import { Fault } from "../../src/contract/fault.ts";
import { STEPS, type Step, type Subject } from "./exercise.ts";
import { makeImage } from "./image.ts";
import { Machine, PORT, TIME_FACTOR } from "./machine.ts";
import { makePayload } from "./payload.ts";
import { filesOf, SYSTEMS } from "./systems.ts";
import { requireTools } from "./tools.ts";

const FOLDER = "/var/cache/sandlot-vm";
const JOURNAL_LINES = 40;

const began = performance.now();

function say(text: string): void {
  console.log(`${String(Math.round((performance.now() - began) / 1000)).padStart(6)} s  ${text}`);
}

async function main([name = "", ...wanted]: string[]): Promise<void> {
  const system = SYSTEMS[name];
  const names = ["shell", ...STEPS.map((step) => step.name)];
  if (system === undefined) {
    throw new Fault(400, `no system "${name}". FIX: npm run vm -- SYSTEM [STEP …], with ${Object.keys(SYSTEMS)}`);
  }
  const unknown = wanted.find((step) => !names.includes(step));
  if (unknown !== undefined) throw new Fault(400, `no step "${unknown}". FIX: one of ${names.join(", ")}`);
  requireTools();
  const config = loadConfig(process.env);
  const files = filesOf(join(FOLDER, name));
  if (!existsSync(files.image)) {
    say(`making the image of ${system.title}`);
    await makeImage(files, system, { mirror: config.debianMirror, progress: (line) => console.error(line) });
    await Machine.makeDisk(files);
  }
  if (!existsSync(files.disk)) await Machine.makeDisk(files);
  const resumes = wanted.length > 0 && (await Machine.hasSnapshot(files, "installed"));
  const snapshot = resumes ? "installed" : (await Machine.hasSnapshot(files, "booted")) ? "booted" : undefined;
  // While the machine boots.
  const packing = resumes ? undefined : makePayload(config, files.payload);
  packing?.catch(() => undefined);
  say(snapshot === undefined ? "booting" : `starting from the snapshot ${snapshot}`);
  const machine = await Machine.start(files, snapshot);
  try {
    if (snapshot === undefined) await machine.keep("booted");
    if (packing !== undefined) {
      await packing;
      say("installing Sandlot");
      await machine.unpackPayload();
      await installService(machine);
      await machine.keep("installed");
    }
    if (wanted.includes("shell")) {
      say(`${machine.sshCommand}\nEnter ends the machine`);
      for await (const _line of console) break;
      return;
    }
    const apiKey = (await machine.run("cat /var/lib/sandlot/api-key")).trim();
    const steps = STEPS.filter((step) => wanted.length === 0 || wanted.includes(step.name));
    const passed = await exercise(
      { apiKey, url: machine.url, run: machine.run.bind(machine), succeeds: machine.succeeds.bind(machine) },
      steps,
    );
    say(`for docs/compatibility.md:\n${await tableRow(machine, system.title, passed)}`);
    if (passed.length < steps.length) throw new Fault(500, `${steps.length - passed.length} steps failed`);
  } finally {
    await machine.end();
  }
}

/** Runs the steps in order, and returns the names of those that passed. */
async function exercise(machine: Subject, steps: readonly Step[]): Promise<string[]> {
  const passed: string[] = [];
  for (const { name, proves, run } of steps) {
    say(`... ${name}: ${proves}`);
    try {
      say(`ok  ${name}: ${await run(machine)}`);
      passed.push(name);
    } catch (cause) {
      say(`NO  ${name}: ${described(cause)}`);
      console.error(await machine.run(`journalctl -u sandlot -n ${JOURNAL_LINES} -o cat --no-pager`));
    }
  }
  return passed;
}

async function tableRow(machine: Machine, system: string, passed: readonly string[]): Promise<string> {
  const output = await machine.run(
    "uname -r; stat -fc %T /sys/fs/cgroup; systemctl --version | head -n 1 | cut -d ' ' -f 2; node --version",
  );
  const [kernel, cgroup, systemd, node] = output.trim().split("\n");
  const date = new Date().toISOString().slice(0, 10);
  const version = cgroup === "cgroup2fs" ? "v2" : "v1";
  const steps = passed.length === STEPS.length ? "all" : passed.map((name) => `\`${name}\``).join(", ");
  return `| ${[system, process.arch, kernel, version, systemd, node, date, steps].join(" | ")} |`;
}

/** QEMU forwards requests of the exercise to this address. */
async function installService(machine: Machine): Promise<void> {
  const settings = JSON.stringify({ listen: `0.0.0.0:${PORT}`, timeFactor: TIME_FACTOR, ready: 0 });
  await machine.run(`mkdir -p /etc/sandlot && echo '${settings}' > /etc/sandlot/config.json && sandlot install`);
}

await main(process.argv.slice(2)).catch((error: unknown) => {
  console.error(`sandlot: ${described(error)}`);
  process.exit(1);
});
process.exit(0);
