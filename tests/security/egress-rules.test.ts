/** Packets against the rules: network namespaces in the place of sandboxes, and the internet of the tests outside. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Egress, EgressPolicy } from "../../src/host/host.ts";
import type { ConnectionRelay } from "../../src/host/network/egress-rules.ts";
import { Network } from "../../src/host/network/network.ts";
import { run } from "../../src/host/system/command.ts";
import { DataFolder } from "../../src/host/system/data-folder.ts";
import { MACHINE_ADDRESS, MUST_BE_CLOSED, OUTSIDE } from "../../src/host/testing/outer-network.ts";
import { until } from "../support/until.ts";

const OTHER = "8.8.8.8";
const PROBE = join(import.meta.dir, "../support/services/probe.py");
const RELAY_UID = 64_321;
const nothing: EgressPolicy = { allowRanges: [], allowNames: [], denyRanges: [], proxy: null };
const ALL = ["0.0.0.0/0"];
const deny = (...denyRanges: string[]): EgressPolicy => ({ ...nothing, denyRanges });
const proxy = { host: "proxy.test", port: 1080, credentials: null };

/** Answers every connection with its name and where it came from; remembers what it is told. */
class ToyRelay implements ConnectionRelay {
  readonly uid = RELAY_UID;
  readonly told = new Map<string, EgressPolicy | null>();
  fails = false;

  private constructor(
    readonly ports: ConnectionRelay["ports"],
    readonly servers: readonly Server[],
  ) {}

  static async open(gateway: string): Promise<ToyRelay> {
    const listen = async (name: string) => {
      const server = createServer((client) => {
        client.on("error", () => undefined).on("data", () => client.end(`${name} ${client.remoteAddress}`));
      });
      const listening = Promise.withResolvers<void>();
      server.listen(0, gateway, () => listening.resolve());
      await listening.promise;
      return server;
    };
    const servers = [await listen("http"), await listen("tls"), await listen("proxied")];
    const [http = 0, tls = 0, proxied = 0] = servers.map((server) => (server.address() as { port: number }).port);
    return new ToyRelay({ http, tls, proxied }, servers);
  }

  async set(source: string, policy: EgressPolicy | null): Promise<void> {
    if (this.fails) throw new Error("the relay is ill");
    this.told.set(source, policy);
  }

  async setClosed(): Promise<void> {
    // Nothing of it is seen here.
  }

  async close(): Promise<void> {
    for (const server of this.servers) server.close();
  }
}

/** A network namespace in a slot. */
class Inmate {
  private constructor(
    readonly slot: number,
    readonly process: Bun.Subprocess,
  ) {}

  static async plug(egress: Egress): Promise<Inmate> {
    const slot = network.take();
    const process = Bun.spawn(["unshare", "--net", "sh", "-c", "echo ready; exec sleep 1000"], { stdout: "pipe" });
    await process.stdout.getReader().read();
    await network.setEgress(slot, egress);
    await network.plug(slot, process.pid);
    return new Inmate(slot, process);
  }

  get address(): string {
    return network.address(this.slot);
  }

  command(argv: readonly string[]): string[] {
    return ["nsenter", `--net=/proc/${this.process.pid}/ns/net`, "--", ...argv];
  }

  async reached(probes: readonly string[]): Promise<string[]> {
    const said = await run(this.command(["python3", PROBE, ...probes]));
    return said.split("\n").filter((line) => line !== "");
  }

  /** These answer, and no other of `probes`. What is open is asked again on a machine that is busy. */
  async expectOnly(open: readonly string[], probes: readonly string[]): Promise<void> {
    let found: string[] = [];
    await until(
      () => `${open} answer; these do: ${found}`,
      async () => {
        found = await this.reached(probes);
        expect(open).toEqual(expect.arrayContaining(found));
        return found.length === open.length;
      },
    );
  }

  /** What answers there. */
  async asked(address: string, port: number): Promise<string> {
    const script = `
import socket
try:
    with socket.create_connection(("${address}", ${port}), 10) as there:
        there.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        print(there.recv(1000).decode().split("\\r\\n")[-1])
except OSError as error:
    print(type(error).__name__)`;
    return (await run(this.command(["python3", "-c", script]))).trim();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.process.kill("SIGKILL");
    await this.process.exited;
    await network.unplug(this.slot);
    await network.free(this.slot);
  }
}

const every = (address: string) => [`tcp ${address} 80`, `udp ${address} 7000`];
const table = async () => await run(["nft", "list", "table", "inet", network.table]);

const data = new DataFolder(mkdtempSync(join(tmpdir(), "sandlot-egress-")));
let network: Network;
let relay: ToyRelay;
async function open(adopted: readonly [slot: number, egress: Egress][] = []): Promise<void> {
  network = new Network(data);
  for (const [slot, egress] of adopted) network.adopt(slot, egress);
  await network.open(async ({ gateway }) => {
    relay = await ToyRelay.open(gateway);
    return relay;
  });
}
beforeAll(async () => {
  data.makeRunFolder();
  await open();
});
afterAll(async () => {
  await network.remove();
  for (const folder of [data.runFolder, data.path]) rmSync(folder, { recursive: true });
});

describe("addresses", () => {
  test("that are denied are refused over every protocol, and those that are allowed pass all the same", async () => {
    await using inmate = await Inmate.plug(deny(`${OUTSIDE}/32`));
    const probes = [...every(OUTSIDE), `tcp ${OTHER} 80`];
    await inmate.expectOnly([`tcp ${OTHER} 80`], probes);
    await network.setEgress(inmate.slot, { ...deny(...ALL), allowRanges: [`${OUTSIDE}/32`] });
    await inmate.expectOnly(every(OUTSIDE), probes);
    await network.setEgress(inmate.slot, "closed");
    await inmate.expectOnly([], probes);
    await network.setEgress(inmate.slot, "open");
    await inmate.expectOnly(probes, probes);
  });

  test("that are closed to all are opened by nothing", async () => {
    await using inmate = await Inmate.plug({ ...nothing, allowRanges: ALL, allowNames: ["*"], proxy });
    const probes = [...MUST_BE_CLOSED, MACHINE_ADDRESS].flatMap(every);
    expect(await inmate.reached(probes)).toEqual([]);
    await network.setEgress(inmate.slot, {
      ...nothing,
      allowRanges: ["10.0.0.0/8", "203.0.113.0/24", "169.254.0.0/16"],
    });
    expect(await inmate.reached(probes)).toEqual([]);
  });

  test("of a slot's last sandbox mean nothing to its next", async () => {
    const before = await Inmate.plug({ ...deny("9.0.0.0/8"), allowNames: ["a.test"] });
    const { slot, address } = before;
    await before[Symbol.asyncDispose]();
    expect(relay.told.get(address)).toBeNull();
    expect(network.judgeOf(address)).toBeUndefined();
    expect(await table()).not.toMatch(new RegExp(`slot_${slot}_(allow|deny)|chain slot_${slot}_\\w+ {\\n\\t\\t`));
  });
});
