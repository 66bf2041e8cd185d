/** For tests: edge processes as the server starts them, on loopback, with a directory that the test controls. */
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../base/testing/free-port.ts";
import type { Directory, Route, RouteEvent } from "../../contract/internal/directory.ts";
import type { ConnectionLimits } from "../../edge/limits.ts";
import { serveManagement } from "../../edge/management-server.ts";
import type { EdgeProcesses } from "../../edge/process/edge-processes.ts";
import { hostOf, SANDBOX } from "../../edge/testing/edge-under-test.ts";
import { removeEdgeCgroups } from "../../system/cgroup/edge-memory.ts";
import { bundleEdge, startEdge } from "../server/edge/edge-start.ts";

export const PROCESSES = 3;
export const LIMITS = { perSandbox: 5, perTeam: 100 };
const folder = mkdtempSync(join(tmpdir(), "edge-"));
// Other users than root must be able to traverse it.
chmodSync(folder, 0o711);
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

let nets = 0;
let tags = 0;

export class StartedEdge implements AsyncDisposable {
  readonly port = freePort();
  readonly logged: string[] = [];
  readonly tag = `edge-${process.pid}-${++tags}`;
  readonly #management = serveManagement({ management: async () => new Response("management") });
  #tell: (event: RouteEvent) => void = () => undefined;
  wake: Directory["wake"] = async () => ({ refused: "not-found" });
  processes!: EdgeProcesses;

  static async open({
    pingMs,
    processes = PROCESSES,
    limits = LIMITS,
  }: {
    pingMs?: number;
    processes?: number;
    limits?: ConnectionLimits;
  } = {}): Promise<StartedEdge> {
    const edge = new StartedEdge();
    const net = ++nets;
    const runFolder = mkdtempSync(join(folder, "run-"));
    chmodSync(runFolder, 0o711);
    edge.processes = await startEdge({
      program: await bundleEdge({ runFolder }),
      net,
      directory: {
        follow: (listener) => {
          edge.#tell = listener;
          listener({ kind: "table", routes: [edge.route("127.0.0.1")] });
        },
        wake: (id, request) => edge.wake(id, request),
        forward: async () => undefined,
        findSigned: async () => undefined,
      },
      management: edge.#management.socket,
      trustedProxies: [],
      limits,
      log: (message) => edge.logged.push(message),
      processes,
      tag: edge.tag,
      ...(pingMs !== undefined && { pingMs }),
    });
    await edge.processes.begin({ hostname: "127.0.0.1", port: edge.port, idleMs: 60_000 });
    return edge;
  }

  route(host: string, runId = "run-1"): Route {
    const access = { teamId: "team", trafficToken: null, guardsRuntime: false, maskRequestHost: null, httpsPorts: [] };
    const endpoint = { host, runtimePort: 1, ownPorts: true };
    return { sandboxId: SANDBOX, runId, endpoint, access, isOpen: true };
  }

  tell(event: RouteEvent): void {
    this.#tell(event);
  }

  /** Over a new connection, so that the kernel chooses the process. */
  fetch(port: number, init: RequestInit = {}): Promise<Response> {
    const headers = { host: hostOf(port), connection: "close" };
    return fetch(`http://127.0.0.1:${this.port}/`, { ...init, headers });
  }

  get pids(): number[] {
    const children = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, "utf8");
    const isEdge = (pid: number) => commandOf(pid).includes(`${folder}/run-`);
    return children.trim().split(" ").map(Number).filter(isEdge);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.processes.close();
    await removeEdgeCgroups(this.tag);
    await this.#management.stop(true);
  }
}

/** Empty if it has ended since. */
function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}
