/** Ends the previous gateway: a sandbox has only one, and a new configuration replaces the old one. */
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { systemCode } from "../base/system-code.ts";
import { Fault } from "../contract/fault.ts";

/** Time from SIGTERM until the previous gateway must be gone. */
const FORMER_GATEWAY_END_MS = 5_000;
const FORMER_GATEWAY_POLL_MS = 20;

const PID_FILE = "/run/mcp-gateway.pid";
/** The argument that marks the background process of a gateway. */
export const BACKGROUND = "background";

export async function recordGateway(): Promise<void> {
  await writeFile(PID_FILE, `${process.pid}`, { mode: 0o600 });
}

export async function endPreviousGateway(): Promise<void> {
  const pid = Number(readText(PID_FILE));
  if (!isGateway(pid)) return;
  sendSigterm(pid);
  for (let waitedMs = 0; isGateway(pid); waitedMs += FORMER_GATEWAY_POLL_MS) {
    if (waitedMs > FORMER_GATEWAY_END_MS) throw new Fault(503, `the gateway before this one, ${pid}, does not end`);
    await Bun.sleep(FORMER_GATEWAY_POLL_MS);
  }
}

function sendSigterm(pid: number): void {
  try {
    process.kill(pid, "SIGTERM");
  } catch (error) {
    // The process ended by itself just now.
    if (systemCode(error) !== "ESRCH") throw error;
  }
}

/** Checks the command line, because the pid may belong to another process by now. */
function isGateway(pid: number): boolean {
  if (!Number.isInteger(pid) || pid <= 1 || pid === process.pid) return false;
  const [, ...args] = (readText(`/proc/${pid}/cmdline`) ?? "").split("\0");
  return args.includes(BACKGROUND) && args.some((arg) => arg.endsWith("mcp-gateway.js"));
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
