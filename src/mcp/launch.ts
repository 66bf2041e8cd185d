/** Starts the gateway in the background and waits until it is ready or reports an error. */
import { Fault } from "../contract/fault.ts";
import type { Report, Settings } from "./background.ts";
import { LOG_FILE } from "./log-file.ts";
import { BACKGROUND } from "./previous-gateway.ts";
import { endGroup, ownVariables } from "./servers/run-as-user.ts";

/** Longer than the gateway's own limit, so that it can clean up and report. */
const READY_MAX_MS = 58_000;
const READY_REPORT_MAX_BYTES = 64 * 1024;

export async function launch(settings: Settings): Promise<void> {
  // Detached: the launching command ends, and descriptors that the gateway held open would keep its client waiting.
  const gateway = Bun.spawn([process.execPath, "--smol", "--no-env-file", process.argv[1] ?? "", BACKGROUND], {
    env: ownVariables(),
    cwd: "/",
    stdin: Buffer.from(JSON.stringify(settings)),
    stdout: "pipe",
    stderr: "ignore",
    detached: true,
  });
  const late = Promise.withResolvers<Report>();
  const timer = setTimeout(() => {
    endGroup(gateway, "SIGKILL");
    late.resolve({
      ready: false,
      message: `the gateway was not ready after ${READY_MAX_MS / 1000} s; see ${LOG_FILE}`,
    });
  }, READY_MAX_MS);
  const report = await Promise.race([firstReport(gateway.stdout), late.promise]);
  clearTimeout(timer);
  if (!report.ready) throw new Fault(502, report.message);
}

async function firstReport(stdout: ReadableStream<Uint8Array>): Promise<Report> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const piece of stdout) {
    text += decoder.decode(piece, { stream: true });
    if (text.endsWith("\n") || text.length > READY_REPORT_MAX_BYTES) break;
  }
  if (text.endsWith("\n")) return JSON.parse(text) as Report;
  return { ready: false, message: `the gateway ended before it was ready; see ${LOG_FILE}` };
}
