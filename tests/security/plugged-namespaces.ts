/** A test's own network: network namespaces in place of sandboxes, and a toy in place of the relay. */
import { expect } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Egress, EgressPolicy } from "../../src/contract/internal/host.ts";
import type { ConnectionRelay } from "../../src/sandbox/network/egress-rules.ts";
import { Network } from "../../src/sandbox/network/network.ts";
import { run } from "../../src/system/command.ts";
import { DataFolder } from "../../src/system/data-folder.ts";
import { PATIENT } from "../support/egress/probing.ts";
import { until } from "../support/until.ts";

const PROBE = join(import.meta.dir, "../support/services/probe.py");

/** Listens on a free port, prints it, and answers every connection with its name and the source address. */
const TOY = `
import os, socket, sys, threading
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
def serve(name, listener):
    while True:
        client, (address, _) = listener.accept()
        threading.Thread(target=answer, args=(name, client, address), daemon=True).start()
def answer(name, client, address):
    try:
        if client.recv(1000): client.sendall(f"{name} {address}".encode())
        client.close()
    except OSError: pass
for name in ("http", "tls", "proxied"):
    listener = socket.create_server((sys.argv[1], 0))
    threading.Thread(target=serve, args=(name, listener), daemon=True).start()
    print(listener.getsockname()[1], flush=True)
sys.stdin.read()
`;

/** Records what it is told. Its process runs as a relay's user: sandboxes get replies from no other. */
class ToyRelay implements ConnectionRelay {
  /** A uid that no user of the machine has. */
  static readonly UID = 64_321;
  readonly uid = ToyRelay.UID;
  readonly reported = new Map<string, EgressPolicy | null>();
  fails = false;

  private constructor(
    readonly ports: ConnectionRelay["ports"],
    readonly process: Bun.Subprocess,
  ) {}

  static async open(gateway: string): Promise<ToyRelay> {
    const command = ["python3", "-c", TOY, gateway, String(ToyRelay.UID)];
    const process = Bun.spawn(command, { stdin: "pipe", stdout: "pipe" });
    const lines = new Lines(process.stdout);
    const [http, tls, proxied] = [await lines.next(), await lines.next(), await lines.next()].map(Number);
    return new ToyRelay({ http: http ?? 0, tls: tls ?? 0, proxied: proxied ?? 0 }, process);
  }

  async set(source: string, policy: EgressPolicy | null): Promise<void> {
    if (this.fails) throw new Error("the relay is ill");
    this.reported.set(source, policy);
  }

  async setClosed(): Promise<void> {
    // Nothing of it is seen here.
  }

  answerRule(): void {
    // It asks nothing.
  }

  async close(): Promise<void> {
    this.process.kill("SIGKILL");
    await this.process.exited;
  }
}

export class PluggedNamespaces {
  readonly data = new DataFolder(mkdtempSync(join(tmpdir(), "sandlot-egress-")));
  network!: Network;
  relay!: ToyRelay;

  /** As a server does that starts, or starts again over these. */
  async open(adopted: readonly PluggedNamespace[] = [], egressOf: (slot: number) => Egress = () => "open") {
    this.data.makeRunFolder();
    this.network = new Network(this.data);
    for (const { slot } of adopted) this.network.adopt(slot, egressOf(slot));
    if (adopted.length > 0) this.network.admitAdopted();
    await this.network.open(async ({ gateway }) => {
      this.relay = await ToyRelay.open(gateway);
      return this.relay;
    });
  }

  async remove(): Promise<void> {
    await this.network.remove();
    for (const folder of [this.data.runFolder, this.data.path]) rmSync(folder, { recursive: true });
  }

  async plug(egress: Egress): Promise<PluggedNamespace> {
    const slot = this.network.take();
    const process = Bun.spawn(["unshare", "--net", "sh", "-c", "echo ready; exec sleep 1000"], { stdout: "pipe" });
    await process.stdout.getReader().read();
    await this.network.setEgress(slot, egress);
    await this.network.plug(slot, process.pid);
    return new PluggedNamespace(this, slot, process);
  }

  /** All that the firewall says. */
  async table(): Promise<string> {
    return await run(["nft", "list", "table", "inet", this.network.table]);
  }
}

class PluggedNamespace {
  constructor(
    readonly all: PluggedNamespaces,
    readonly slot: number,
    readonly process: Bun.Subprocess,
  ) {}

  get address(): string {
    return this.all.network.address(this.slot);
  }

  async set(egress: Egress): Promise<void> {
    await this.all.network.setEgress(this.slot, egress);
  }

  command(argv: readonly string[]): string[] {
    return ["nsenter", `--net=/proc/${this.process.pid}/ns/net`, "--", ...argv];
  }

  /** Those of `probes` that are answered. */
  async reached(probes: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<string[]> {
    const settings = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    return linesOf(await run(this.command(["env", ...settings, "python3", PROBE, ...probes])));
  }

  /** The answer to a line sent there. */
  async request(address: string, port: number): Promise<string> {
    const script = `
import socket
try:
    with socket.create_connection(("${address}", ${port}), 20) as there:
        there.sendall(b"hello")
        print(there.recv(1000).decode())
except OSError as error:
    print(type(error).__name__)`;
    return (await run(this.command(["python3", "-c", script]))).trim();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.process.kill("SIGKILL");
    await this.process.exited;
    await this.all.network.unplug(this.slot);
    await this.all.network.free(this.slot);
  }
}

/** The output of a program, line by line. */
export class Lines {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #text = "";

  constructor(stream: ReadableStream<Uint8Array>) {
    this.#reader = stream.getReader();
  }

  async next(): Promise<string> {
    while (!this.#text.includes("\n")) {
      const { value, done } = await this.#reader.read();
      if (done) throw new Error(`it ended after ${JSON.stringify(this.#text)}`);
      this.#text += new TextDecoder().decode(value);
    }
    const end = this.#text.indexOf("\n");
    const line = this.#text.slice(0, end);
    this.#text = this.#text.slice(end + 1);
    return line;
  }
}

/** These probes are answered, after retries, and no others of `probes`. */
export async function expectOnly(
  plugged: PluggedNamespace,
  open: readonly string[],
  probes: readonly string[],
): Promise<void> {
  let silent = open;
  await until(
    () => `${open} answer; these do not: ${silent}`,
    async () => {
      const found = await plugged.reached(silent, PATIENT);
      silent = silent.filter((probe) => !found.includes(probe));
      return silent.length === 0;
    },
  );
  expect(await plugged.reached(probes.filter((probe) => !open.includes(probe)))).toEqual([]);
}

/** Those of `probes` that are answered to a process of this machine. */
export async function reachedBy(uid: number, probes: readonly string[]): Promise<string[]> {
  const identity = [`--reuid=${uid}`, `--regid=${uid}`, "--clear-groups"];
  return linesOf(await run(["setpriv", ...identity, "/usr/bin/python3", PROBE, ...probes]));
}

function linesOf(text: string): string[] {
  return text.split("\n").filter((line) => line !== "");
}
