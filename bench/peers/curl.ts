/** curl as the client of both sides, so that the client costs both the same. */
import { Fault } from "../../src/contract/fault.ts";
import { run } from "../../src/host/system/command.ts";

const TRANSFER_MS = 120_000;
const SAID = "%{http_code} %{size_download} %{size_upload} %{time_total}";

export interface Transfer {
  method: "GET" | "POST" | "PUT";
  url: string;
  headers?: Record<string, string>;
  /** A file to send. */
  upload?: string;
  /** How many bytes must have been carried. */
  bytes: number;
}

interface Requests {
  host: string;
  port: number;
  /** Whom to trust. */
  authority: string;
  path: string;
  count: number;
  connections: number;
}

/** Asks this machine for the same page again and again, by HTTP/1.1 over a few connections with TLS that are kept. */
export async function askMany({ host, port, authority, path, count, connections }: Requests): Promise<void> {
  const together = ["--parallel", "--parallel-max", String(connections), "--http1.1"];
  const trusted = ["--cacert", authority, "--resolve", `${host}:${port}:127.0.0.1`, "--noproxy", "*"];
  const said = ["--silent", "--show-error", "--output", "/dev/null", "--write-out", "%{http_code}\n"];
  const argv = ["curl", ...together, ...trusted, ...said, `https://${host}:${port}${path}?[1-${count}]`];
  const codes = (await run(argv, { timeoutMs: TRANSFER_MS })).trim().split("\n");
  const good = codes.filter((code) => code === "200").length;
  if (good !== count) throw new Fault(500, `${good} of ${count} requests to ${host}:${port} were answered with 200`);
}

/** Carries a file, and answers how long it took by curl's own clock. What arrives is thrown away. */
export async function transferMs({ method, url, headers = {}, upload, bytes }: Transfer): Promise<number> {
  // Without Expect curl sends the file right away, instead of asking first.
  const lines = Object.entries({ ...headers, Expect: "" }).map(([name, value]) => `header = "${name}: ${value}"`);
  const file = upload === undefined ? [] : ["--upload-file", upload];
  const options = ["--silent", "--show-error", "--output", "/dev/null", "--write-out", SAID, "--noproxy", "*"];
  // Headers hold a token, and arguments can be read by everybody on the machine.
  const argv = ["curl", ...options, "--request", method, ...file, "--config", "-", url];
  const said = await run(argv, { stdin: lines.join("\n"), timeoutMs: TRANSFER_MS });
  const [status = 0, down = 0, up = 0, seconds = 0] = said.split(" ").map(Number);
  const carried = upload === undefined ? down : up;
  if (status < 200 || status > 299 || carried !== bytes) {
    throw new Fault(500, `${method} ${url} was answered with ${status} after ${carried} of ${bytes} bytes`);
  }
  return seconds * 1000;
}
