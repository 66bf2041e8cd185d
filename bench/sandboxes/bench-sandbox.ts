/** A sandbox to measure: created through the API, and seen from the host, where its address and processes are known. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { serverFile } from "../../src/cli/server-file.ts";
import { slotAddress } from "../../src/contract/address-plan.ts";
import { Fault } from "../../src/contract/fault.ts";
import type { NetworkRequest } from "../../src/contract/management/network.ts";
import { RUNTIME_PORT } from "../../src/contract/runtime/version.ts";
import { serverNet } from "../../src/sandbox/network/slots.ts";
import { readRecord } from "../../src/sandbox/sandbox-record.ts";
import { memoryInUse } from "../../src/system/cgroup/memory-in-use.ts";
import type { Context } from "../context.ts";
import { childrenOf, commandLineOf } from "../figures/process-tree.ts";

const LIFE_SECONDS = 1800;
/** Path of the edge processes' program. */
const EDGE_PROGRAM = "/edge/edge.js";
const MIB = 1024 ** 2;

interface SandboxOptions {
  /** Its network rules, if any. */
  network?: NetworkRequest;
  /** Whether a request resumes it. */
  wakes?: boolean;
}

export class BenchSandbox implements AsyncDisposable {
  /** Its address on the host, without the server. */
  readonly address: string;
  /** Its root filesystem as the host sees it. */
  readonly root: string;
  /** Pids of the guest, the server, and the edge processes that carry requests to sandboxes. */
  readonly pids: { server: number; guest: number } & Record<string, number>;

  private constructor(
    readonly context: Context,
    readonly id: string,
    token: string | null,
    pid: number,
    slot: number,
  ) {
    const { data } = context;
    this.address = slotAddress(serverNet(data), slot);
    this.root = `/proc/${pid}/root`;
    const server = Number.parseInt(readFileSync(serverFile(data), "utf8"), 10);
    const edges = childrenOf(server).filter((child) => commandLineOf(child).includes(EDGE_PROGRAM));
    this.pids = {
      ...Object.fromEntries(edges.map((edge, nth) => [`edge ${nth + 1}`, edge])),
      server,
      guest: guestOf(pid),
    };
    this.headers = {
      "E2b-Sandbox-Id": id,
      "E2b-Sandbox-Port": String(RUNTIME_PORT),
      ...(token === null ? {} : { "X-Access-Token": token }),
    };
  }

  /** Headers of a request to its runtime port through the server. */
  readonly headers: Record<string, string>;

  static async make(context: Context, options: SandboxOptions = {}): Promise<BenchSandbox> {
    const { network, wakes = false } = options;
    const request = { templateID: "base", timeout: LIFE_SECONDS, network, autoResume: { enabled: wakes } };
    const created = await context.call("POST", "/v2/sandboxes", request);
    const { sandboxID: id, envdAccessToken: token } = created as { sandboxID: string; envdAccessToken: string | null };
    const record = readRecord(join(context.data.sandboxesFolder, id));
    if (record === undefined) throw new Fault(500, `the sandbox ${id} has no record`);
    await context.untilReady();
    return new BenchSandbox(context, id, token, record.pid, record.slot);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.context.call("DELETE", `/sandboxes/${this.id}`);
    await this.context.untilReady();
  }
}

/** A sandbox's memory in MiB, as counted by its cgroup: pages that other sandboxes read first count there. */
export function memoryOf({ data }: Context, id: string): number {
  const cgroup = readRecord(join(data.sandboxesFolder, id))?.cgroup ?? "";
  return memoryInUse(cgroup) / MIB;
}

/** The first process has one child, which supervises the guest; the guest is the only child of that. */
function guestOf(pid: number): number {
  return onlyChildOf(onlyChildOf(pid));
}

function onlyChildOf(pid: number): number {
  const children = childrenOf(pid);
  const [child] = children;
  if (child === undefined || children.length > 1) {
    throw new Fault(500, `process ${pid} has the children ${children.join(", ")}; one was expected`);
  }
  return child;
}
