/**
 * A server that is open to other machines: every listening socket of the server and its processes is on a loopback
 * address, on the gateway of its sandboxes, which no other machine reaches, or is the TLS listener. The TLS listener
 * rejects unauthenticated requests.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { routes } from "../../src/control/routes/routes.ts";
import { enterInternet, MACHINE_ADDRESS } from "../../src/host/testing/outer-network.ts";
import { attempt, run } from "../../src/system/command.ts";
import { makeCertificate } from "../../src/tls/testing/certificates.ts";
import { startListening } from "../support/listening.ts";
import { newDataFolder, startServer, type TestServer, tearDownServer } from "../support/server.ts";

const DOMAIN = "sandboxes.localhost";
const TLS_PORT = 8443;
const GATEWAY = /^198\.1[89]\.\d+\.1$/;

const folder = newDataFolder("listening-sockets");
let certificate: string;
let server: TestServer;
let secret: Sandbox;
beforeAll(async () => {
  const files = await makeCertificate(join(folder, "own"), { name: "own", domain: DOMAIN });
  certificate = files.cert;
  server = await startServer(folder, {
    SANDLOT_DOMAIN: DOMAIN,
    SANDLOT_TLS_LISTEN: `0.0.0.0:${TLS_PORT}`,
    SANDLOT_TLS_CERT: files.cert,
    SANDLOT_TLS_KEY: files.key,
    SANDLOT_READY: "0",
  });
  // With rules that need all there is to carry them.
  const network = { allowPublicTraffic: false, denyOut: ["0.0.0.0/0"], allowOut: ["example.com"] };
  secret = await Sandbox.create({ ...server.options, timeoutMs: 600_000, secure: true, network });
  await startListening(secret, "exec python3 -u -m http.server 8000");
});
afterAll(async () => {
  await server.stop();
  await tearDownServer(folder);
});

interface Listening {
  protocol: string;
  address: string;
  port: number;
}

/** Of the server and all processes that it has started, in the namespace of the machine. */
async function listening(): Promise<Listening[]> {
  const own = processesOf(server.pid);
  const rows = (await run(["ss", "--no-header", "--listening", "--numeric", "--tcp", "--udp", "--processes"])).split(
    "\n",
  );
  return rows.flatMap((row) => {
    const [protocol = "", , , , local = ""] = row.split(/\s+/);
    const holders = [...row.matchAll(/pid=(\d+)/g)].map(([, pid]) => Number(pid));
    if (!holders.some((pid) => own.has(pid))) return [];
    const colon = local.lastIndexOf(":");
    return [{ protocol, address: local.slice(0, colon).replace(/%.*$/, ""), port: Number(local.slice(colon + 1)) }];
  });
}

function processesOf(root: number): Set<number> {
  const parents = readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const fields = readFileSync(`/proc/${name}/stat`, "utf8")
        .replace(/^.*\) /s, "")
        .split(" ");
      return [{ pid: Number(name), parent: Number(fields[1]) }];
    } catch {
      // It has ended.
      return [];
    }
  });
  const found = new Set([root]);
  for (let before = 0; before < found.size; ) {
    before = found.size;
    for (const { pid, parent } of parents) if (found.has(parent)) found.add(pid);
  }
  return found;
}

/** A request of another machine, to the machine's own address. */
async function fromOutside(host: string, path: string): Promise<string> {
  const url = `https://${host}.${DOMAIN}:${TLS_PORT}${path}`;
  const resolve = `${host}.${DOMAIN}:${TLS_PORT}:${MACHINE_ADDRESS}`;
  const curl = ["curl", "-sS", "-m", "20", "--cacert", certificate, "--resolve", resolve];
  const { stdout, stderr } = await attempt([...outside, ...curl, "-o", "/dev/null", "-w", "%{http_code}", url]);
  return stdout + stderr;
}
const outside = enterInternet(String(process.env.SANDLOT_TEST_RUN));

test("every socket is on loopback, on the gateway, or is the TLS listener", async () => {
  const sockets = await listening();
  const isOwn = ({ address, port }: Listening) => address === "0.0.0.0" && port === TLS_PORT;
  const isLoopback = ({ address }: Listening) => /^127\.|^\[::1\]$/.test(address);
  const isGateway = ({ address }: Listening) => GATEWAY.test(address);
  // Sockets of each kind exist, so the check below is not empty.
  for (const kind of [isOwn, isLoopback, isGateway]) expect(sockets.filter(kind)).not.toEqual([]);
  expect(sockets.filter((socket) => !isOwn(socket) && !isLoopback(socket) && !isGateway(socket))).toEqual([]);
});

test("another machine reaches only the TLS listener", async () => {
  const sockets = await listening();
  const probe = join(import.meta.dir, "../support/services/probe.py");
  const probes = sockets
    .filter(({ port }) => port !== TLS_PORT)
    .flatMap(({ protocol, address, port }) => {
      const kinds = protocol === "udp" ? ["udp", "dns"] : ["tcp", "dnstcp"];
      const reachable = GATEWAY.test(address) ? [address, MACHINE_ADDRESS] : [MACHINE_ADDRESS];
      return kinds.flatMap((kind) => reachable.map((target) => `${kind} ${target} ${port}`));
    });
  expect(probes.length).toBeGreaterThan(3);
  const stdout = await run([...outside, "python3", probe, ...probes]);
  expect(stdout.split("\n").filter((line) => line !== "")).toEqual([]);
  expect(await fromOutside("api", "/health")).toBe("200");
});

test("the TLS listener requires a key for the management API and a token for a private sandbox", async () => {
  const ca = readFileSync(certificate, "utf8");
  const guarded = routes.filter(({ auth }) => auth !== "none");
  const answers = await Promise.all(
    guarded.map(async ({ method, path }) => {
      const url = `https://api.${DOMAIN}:${TLS_PORT}${path.replaceAll(/\{\w+\}/g, "x")}`;
      const { status } = await fetch(url, { method, tls: { ca } } as RequestInit);
      return `${method} ${path}: ${status}`;
    }),
  );
  expect(answers.filter((answer) => !answer.endsWith(": 401"))).toEqual([]);
  // The health check, the protocol's description, and uploads, whose links are signed.
  const open = routes.filter(({ auth }) => auth === "none").map(({ path }) => path);
  expect(open.sort()).toEqual(["/health", "/openapi.json", "/templates/{templateID}/files/{hash}"]);
  expect(await fromOutside(`8000-${secret.sandboxId}`, "/")).toBe("403");
  expect(await fromOutside(`49983-${secret.sandboxId}`, "/envs")).toBe("401");
});
