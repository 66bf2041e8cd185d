/** A virtual machine: its disk and snapshots, its QEMU process, and commands in it. */
import { existsSync, readFileSync } from "node:fs";
import { chmod, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { freePort } from "../../src/base/testing/free-port.ts";
import { Fault } from "../../src/contract/fault.ts";
import { attempt, run } from "../../src/system/command.ts";
import { ARCHITECTURE, type SystemFiles } from "./systems.ts";

const MEMORY_MB = 4096;
const PROCESSORS = 2;
const BOOT_MS = 3_600_000;
const COMMAND_MS = 3_600_000;
const TOOL_MS = 600_000;
const TRY_AGAIN_MS = 2_000;
/** Where Sandlot listens in the machine. */
export const PORT = 3000;
/** The machine has no network but this address, which answers every connection with the payload. */
const PAYLOAD_ADDRESS = "10.0.2.100:1";

/** Virtual machines of this machine run stock kernels. Some machines have /dev/kvm only for kernels made for it. */
const hasKvm =
  existsSync("/dev/kvm") && (process.arch === "arm64" || /\b(vmx|svm)\b/.test(readFileSync("/proc/cpuinfo", "utf8")));
/** An emulated processor, on a machine with other work. */
export const TIME_FACTOR = hasKvm ? 2 : 30;

export class Machine {
  private constructor(
    private readonly files: SystemFiles,
    private readonly qemu: Bun.Subprocess,
    private readonly sshPort: number,
    readonly url: string,
  ) {}

  /** From a snapshot, or from the start. */
  static async start(files: SystemFiles, snapshot?: string): Promise<Machine> {
    await rm(files.monitor, { force: true });
    if (!existsSync(files.payload)) await writeFile(files.payload, "");
    const [sshPort, port] = [freePort(), freePort()];
    const forwards = [
      `hostfwd=tcp:127.0.0.1:${sshPort}-:22`,
      `hostfwd=tcp:127.0.0.1:${port}-:${PORT}`,
      `guestfwd=tcp:${PAYLOAD_ADDRESS}-cmd:cat ${files.payload}`,
    ];
    const argv = [
      [ARCHITECTURE.qemu, "-nodefaults", "-display", "none", "-M", ARCHITECTURE.machine],
      hasKvm ? ["-accel", "kvm", "-cpu", "host"] : ["-accel", "tcg,thread=multi", "-cpu", ARCHITECTURE.cpu],
      ["-smp", String(PROCESSORS), "-m", String(MEMORY_MB), "-kernel", files.kernel, "-initrd", files.initrd],
      ["-append", `root=/dev/vda rw console=${ARCHITECTURE.console}`],
      ["-drive", `file=${files.disk},format=qcow2,if=none,id=disk,cache=unsafe`],
      ["-device", "virtio-blk-pci,drive=disk", "-device", "virtio-rng-pci"],
      ["-netdev", ["user,id=net,restrict=on", ...forwards].join(",")],
      ["-device", "virtio-net-pci,netdev=net,romfile="],
      ["-serial", `file:${files.console}`, "-monitor", `unix:${files.monitor},server,nowait`],
      snapshot === undefined ? [] : ["-loadvm", snapshot],
    ].flat();
    const qemu = Bun.spawn(argv, { stdin: "ignore", stdout: "ignore", stderr: "pipe" });
    const machine = new Machine(files, qemu, sshPort, `http://127.0.0.1:${port}`);
    await machine.answers();
    return machine;
  }

  /** A fresh disk over the image. */
  static async makeDisk(files: SystemFiles): Promise<void> {
    await rm(files.disk, { force: true });
    await run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", files.image, "-F", "raw", files.disk], {
      timeoutMs: TOOL_MS,
    });
    await chmod(files.disk, 0o600);
  }

  static async hasSnapshot(files: SystemFiles, name: string): Promise<boolean> {
    if (!existsSync(files.disk)) return false;
    const listed = await run(["qemu-img", "snapshot", "-U", "-l", files.disk], { timeoutMs: TOOL_MS });
    return listed.split("\n").some((line) => line.split(/\s+/)[1] === name || line.split(/\s+/)[2] === name);
  }

  /** Runs a shell command as root in the machine, and returns what it prints. */
  async run(command: string): Promise<string> {
    return await run(["ssh", ...this.sshOptions, command], { timeoutMs: COMMAND_MS });
  }

  async succeeds(command: string): Promise<boolean> {
    return (await attempt(["ssh", ...this.sshOptions, command], { timeoutMs: COMMAND_MS })).exitCode === 0;
  }

  /** Unpacks the payload, a tar archive, over the root folder. */
  async unpackPayload(): Promise<void> {
    const [address, port] = PAYLOAD_ADDRESS.split(":");
    await this.run(`bash -c 'tar -x -C / --numeric-owner < /dev/tcp/${address}/${port}'`);
  }

  get sshCommand(): string {
    return ["ssh", ...this.sshOptions].join(" ");
  }

  private get sshOptions(): string[] {
    const options = {
      StrictHostKeyChecking: "no",
      UserKnownHostsFile: "/dev/null",
      LogLevel: "ERROR",
      ConnectTimeout: 300,
    };
    const flags = Object.entries(options).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
    return ["-i", this.files.key, "-p", String(this.sshPort), ...flags, "root@127.0.0.1"];
  }

  /** Keeps memory and disk under a name. */
  async keep(name: string): Promise<void> {
    await this.tell(`savevm ${name}`);
    if (!(await Machine.hasSnapshot(this.files, name))) throw new Fault(500, `QEMU did not keep the snapshot ${name}`);
  }

  async end(): Promise<void> {
    this.qemu.kill();
    await this.qemu.exited;
  }

  /** Systemd has started everything. */
  private async answers(): Promise<void> {
    const until = performance.now() + BOOT_MS;
    while (performance.now() < until) {
      if (this.qemu.exitCode !== null) {
        const output = await new Response(this.qemu.stderr as ReadableStream).text();
        throw new Fault(500, `QEMU ended: ${output.trim()}`);
      }
      if (await this.succeeds("systemctl is-system-running --wait")) return;
      await Bun.sleep(TRY_AGAIN_MS);
    }
    await this.end();
    throw new Fault(500, `the machine did not boot; its console is ${this.files.console}`);
  }

  /** One command for QEMU's monitor; ends when the monitor prompts again. */
  private async tell(command: string): Promise<void> {
    const prompt = "(qemu) ";
    const socket = connect(this.files.monitor);
    let output = "";
    let isSent = false;
    for await (const chunk of socket) {
      output += String(chunk);
      if (!output.endsWith(prompt)) continue;
      if (isSent) break;
      isSent = true;
      output = "";
      socket.write(`${command}\n`);
    }
    socket.destroy();
    const error = /Error:.*/.exec(output)?.[0];
    if (error !== undefined) throw new Fault(500, `QEMU: ${error}`);
  }
}
