/** The edge as the server runs it: unprivileged processes on loopback. Needs root to drop privileges. */
import { expect, test } from "bun:test";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import net from "node:net";
import { join } from "node:path";
import { freePort } from "../../../base/testing/free-port.ts";
import { until } from "../../../base/testing/until.ts";
import { hostOf, SANDBOX } from "../../../edge/testing/edge-under-test.ts";
import { SELF_SIGNED } from "../../../edge/testing/self-signed.ts";
import { cgroupTrees } from "../../../system/cgroup/cgroups.ts";
import { cgroupOfEdge } from "../../../system/cgroup/edge-memory.ts";
import { run } from "../../../system/command.ts";
import { LIMITS, PROCESSES, StartedEdge } from "../../testing/started-edge.ts";

const TEST_MS = 300_000;
const MIB = 1024 * 1024;
/** A service that begins its responses and ends them when it is stopped. */
function holding() {
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    fetch: () => new Response(new ReadableStream({ start: (controller) => controller.enqueue("begun") })),
  });
  return { port: server.port ?? 0, [Symbol.asyncDispose]: () => server.stop(true) };
}

function answering(text: string) {
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response(text) });
  return { port: server.port ?? 0, [Symbol.asyncDispose]: () => server.stop(true) };
}

/** The response stream, once its first piece has arrived. */
async function begun(edge: StartedEdge, port: number): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  const reader = (await edge.fetch(port)).body?.getReader();
  if (reader === undefined) throw new Error("there is no answer");
  await reader.read();
  return reader;
}

/** How a stream ended: it must not seem whole. */
async function ending(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<string> {
  try {
    return (await reader.read()).done ? "whole" : "more";
  } catch {
    return "cut";
  }
}

function rightsOf(pid: number): string[] {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return ["Uid", "CapEff", "NoNewPrivs", "Groups"].map(
    (name) => RegExp(`^${name}:[^\\S\\n]*(.*?)[^\\S\\n]*$`, "m").exec(status)?.[1] ?? "",
  );
}

test(
  "all processes serve sandboxes and the management API, with the capability to listen only",
  async () => {
    await using edge = await StartedEdge.open();
    await using service = answering("from the sandbox");
    for (let request = 0; request < 12; request++)
      expect(await (await edge.fetch(service.port)).text()).toBe("from the sandbox");
    const plain = await fetch(`http://127.0.0.1:${edge.port}/health`);
    expect(await plain.text()).toBe("management");
    expect(edge.pids).toHaveLength(PROCESSES);
    for (const pid of edge.pids) {
      const [uid = "", effective, isBound, groups] = rightsOf(pid);
      expect(Number(uid.split("\t")[0])).toBeGreaterThan(65_535);
      // CAP_NET_BIND_SERVICE.
      expect([effective, isBound, groups]).toEqual(["0000000000000400", "1", ""]);
    }
  },
  TEST_MS,
);

test(
  "each process and its replacement have their own memory limit",
  async () => {
    await using edge = await StartedEdge.open({ processes: 1 });
    const limited = () =>
      edge.pids.some((pid) => readFileSync(`/proc/${pid}/cgroup`, "utf8").includes(`${cgroupOfEdge(edge.tag)}/0\n`));
    expect(limited()).toBe(true);
    const files = cgroupTrees().flatMap((tree) =>
      ["memory.max", "memory.limit_in_bytes"].map((name) => join(tree, cgroupOfEdge(edge.tag), "0", name)),
    );
    const limits = files.filter(existsSync).map((file) => Number(readFileSync(file, "utf8")));
    expect(limits).toHaveLength(1);
    expect(limits[0]).toBeLessThanOrEqual(1024 ** 3);
    process.kill(edge.pids[0] ?? 0, "SIGKILL");
    await until("it is told", () => edge.logged.some((line) => line.includes("an edge process ended")));
    await until("another is there", () => edge.pids.length === 1 && limited());
  },
  TEST_MS,
);

/** Files of a process's memory cgroup, by its number. They have other names in the two versions of cgroups. */
function memoryFile(edge: StartedEdge, number: number, ...names: string[]): string {
  const files = cgroupTrees().flatMap((tree) =>
    names.map((name) => join(tree, cgroupOfEdge(edge.tag), String(number), name)),
  );
  const found = files.find(existsSync);
  if (found === undefined) throw new Error(`none of these files is there: ${files.join(", ")}`);
  return found;
}

test(
  "a process killed for its memory is replaced at once; streams of the others continue",
  async () => {
    const readers = 80;
    await using edge = await StartedEdge.open({ limits: { perSandbox: 200, perTeam: 200 } });
    const piece = Buffer.alloc(4 * MIB);
    await using service = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response(piece) });
    await using quick = answering("answered");
    await using held = holding();
    const streams = await Promise.all(Array.from({ length: 12 }, () => begun(edge, held.port)));
    let cut = 0;
    for (const stream of streams) void ending(stream).then(() => cut++);
    const before = edge.pids;
    const inUse = Number(readFileSync(memoryFile(edge, 0, "memory.current", "memory.usage_in_bytes"), "utf8"));
    const limit = memoryFile(edge, 0, "memory.max", "memory.limit_in_bytes");
    const usual = readFileSync(limit, "utf8");
    writeFileSync(limit, String(inUse + 4 * MIB));
    // The edge buffers what these do not read; a single process has too little memory for that.
    const unread = Array.from({ length: readers }, () => {
      const socket = net.connect(edge.port, "127.0.0.1").on("error", () => undefined);
      socket.pause();
      socket.write(`GET / HTTP/1.1\r\nHost: ${hostOf(service.port ?? 0)}\r\n\r\n`);
      return socket;
    });
    try {
      await until("one has ended", () => edge.logged.some((line) => line.includes("an edge process ended")));
      // Most are answered, also before it is replaced: those of the others.
      const answers = await Promise.all(
        Array.from({ length: 30 }, () =>
          edge.fetch(quick.port).then(
            ({ status }) => status,
            () => 0,
          ),
        ),
      );
      expect(answers.filter((status) => status === 200).length).toBeGreaterThan(10);
      await until("another is there", () => edge.pids.length === PROCESSES);
      const kept = before.filter((pid) => edge.pids.includes(pid));
      expect(kept).toHaveLength(PROCESSES - 1);
      const killed = readFileSync(memoryFile(edge, 0, "memory.events", "memory.oom_control"), "utf8");
      expect(Number(/^oom_kill (\d+)$/m.exec(killed)?.[1])).toBeGreaterThan(0);
      await until("it has the usual limit", () => readFileSync(limit, "utf8") === usual);
      expect(cut).toBeLessThan(streams.length);
    } finally {
      for (const socket of unread) socket.destroy();
    }
  },
  TEST_MS,
);

test(
  "connection limits of a sandbox span all processes, and a dead process frees its places",
  async () => {
    await using edge = await StartedEdge.open();
    await using service = holding();
    const held = await Promise.all(Array.from({ length: LIMITS.perSandbox }, () => begun(edge, service.port)));
    for (let request = 0; request < 12; request++) expect((await edge.fetch(service.port)).status).toBe(429);
    await held[0]?.cancel();
    await until("a place is free", async () => (await Promise.resolve(edge.fetch(service.port))).status === 200);

    for (const pid of edge.pids) process.kill(pid, "SIGKILL");
    for (const reader of held.slice(1)) expect(await ending(reader)).toBe("cut");
    await until("they are replaced", () => edge.logged.filter((line) => line.includes("ended")).length === PROCESSES);
    await until("they listen", () =>
      edge.fetch(service.port).then(
        ({ status }) => status === 200,
        () => false,
      ),
    );
  },
  TEST_MS,
);

test(
  "a dead process is replaced, the others run on, and the new one gets all routes",
  async () => {
    await using edge = await StartedEdge.open();
    await using quick = answering("answered");
    const [first, ...others] = edge.pids;
    process.kill(first ?? 0, "SIGKILL");
    await until("it is told", () => edge.logged.some((line) => line.includes("an edge process ended")));
    await until("there are as many again", () => edge.pids.length === PROCESSES);
    expect(edge.pids).toEqual(expect.arrayContaining(others));
    let answered = 0;
    await until("all take connections", async () => {
      answered = await edge.fetch(quick.port).then(
        ({ status }) => (status === 200 ? answered + 1 : 0),
        () => 0,
      );
      return answered > 4 * PROCESSES;
    });
  },
  TEST_MS,
);

test(
  "all processes close connections to an address before it is reused, even if the run's end is not known",
  async () => {
    await using edge = await StartedEdge.open();
    await using service = holding();
    const held = await Promise.all(Array.from({ length: LIMITS.perSandbox }, () => begun(edge, service.port)));
    await edge.processes.closeConnectionsTo("127.0.0.1");
    for (const reader of held) expect(await ending(reader)).toBe("cut");
    for (let request = 0; request < 12; request++) {
      const refused = await edge.fetch(service.port);
      expect([refused.status, await refused.text()]).toEqual([502, expect.stringContaining("was not found")]);
    }
    // No process has been told of the address since; a second leave still succeeds.
    await edge.processes.closeConnectionsTo("127.0.0.1");
  },
  TEST_MS,
);

test(
  "an unresponsive process is ended before an address is reused",
  async () => {
    await using edge = await StartedEdge.open({ pingMs: 300 });
    const [first = 0] = edge.pids;
    process.kill(first, "SIGSTOP");
    await edge.processes.closeConnectionsTo("127.0.0.1");
    expect(existsSync(`/proc/${first}`)).toBe(false);
    await until("it is replaced", () => edge.pids.length === PROCESSES);
  },
  TEST_MS,
);

test(
  "a sandbox is woken through the server, and the route arrives before the reply",
  async () => {
    await using edge = await StartedEdge.open();
    await using service = answering("awake");
    edge.tell({ kind: "over", sandboxId: SANDBOX, runId: "run-1" });
    let wakes = 0;
    edge.wake = async () => {
      wakes += 1;
      edge.tell({ kind: "route", route: edge.route("127.0.0.1", `run-${wakes + 1}`) });
      return { woken: true };
    };
    for (let request = 0; request < 12; request++) expect(await (await edge.fetch(service.port)).text()).toBe("awake");
    expect(wakes).toBeGreaterThanOrEqual(1);
  },
  TEST_MS,
);

test.each([1, PROCESSES])(
  "with %d of them, new listeners get all new connections; none is lost when the old ones close",
  async (processes) => {
    await using edge = await StartedEdge.open({ processes });
    const settings = { hostname: "127.0.0.1", port: freePort(), idleMs: 60_000, tls: SELF_SIGNED };
    let current = await edge.processes.begin(settings);
    const failed: string[] = [];
    const answered = [0, 0, 0, 0];
    let isOver = false;
    const callers = answered.map(async (_none, caller) => {
      while (!isOver) {
        const init = { keepalive: false, tls: { rejectUnauthorized: false } };
        await fetch(`https://127.0.0.1:${settings.port}/`, init as RequestInit)
          .then((response) => response.text())
          .catch((error: unknown) => failed.push(String(error)));
        answered[caller] = (answered[caller] ?? 0) + 1;
      }
    });
    /** Resolves when every caller has opened a new connection, so that none predates this call. */
    const more = async () => {
      const before = [...answered];
      await until("all callers called", () => answered.every((count, at) => count >= (before[at] ?? 0) + 2));
    };
    for (let change = 0; change < 6; change++) {
      const before = current;
      current = await edge.processes.begin(settings);
      await more();
      await before.stop(false);
      await more();
    }
    isOver = true;
    await Promise.all(callers);
    expect(failed).toEqual([]);
    await current.stop(true);
  },
  TEST_MS,
);

/** The congestion control of the far end of a connection to this address. */
async function congestionAt(hostname: string, port: number): Promise<string | undefined> {
  const opened = Promise.withResolvers<void>();
  const socket = { data: () => undefined, open: () => opened.resolve() };
  const client = await Bun.connect({ hostname, port, socket });
  await opened.promise;
  const far = ["sport", "=", `:${port}`, "and", "dport", "=", `:${client.localPort}`];
  const shown = await run(["ss", "-Htin", ...far]);
  client.terminate();
  return /\s(reno|cubic|bbr)\s/.exec(shown)?.[1];
}

test(
  "loopback clients get Reno congestion control, others the machine's default",
  async () => {
    await using edge = await StartedEdge.open();
    const usual = readFileSync("/proc/sys/net/ipv4/tcp_congestion_control", "utf8").trim();
    const listen = async (hostname: string) => {
      const port = freePort();
      await edge.processes.begin({ hostname, port, idleMs: 60_000 });
      return port;
    };
    expect(await congestionAt("127.0.0.1", await listen("127.0.0.1"))).toBe("reno");
    expect(await congestionAt("127.0.0.1", await listen("0.0.0.0"))).toBe(usual);
  },
  TEST_MS,
);

test(
  "a port that cannot be opened is reported, and the processes run on",
  async () => {
    await using edge = await StartedEdge.open();
    const taken = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => undefined } });
    const begin = () => edge.processes.begin({ hostname: "127.0.0.1", port: taken.port, idleMs: 1000 });
    await expect(begin()).rejects.toThrow("Failed to listen");
    taken.stop(true);
    const listening = await begin();
    await listening.stop(false);
    expect(edge.logged).toEqual([]);
  },
  TEST_MS,
);
