/** curl as the client of both sides, so that the client costs both the same. */
import { Fault } from "../../src/contract/fault.ts";
import { run } from "../../src/system/command.ts";

const TRANSFER_MS = 120_000;
const SAID = "%{http_code} %{size_download} %{size_upload} %{time_total}";

export interface Transfer {
  method: "GET" | "POST" | "PUT";
  url: string;
  headers?: Record<string, string>;
  /** A file to send. */
  upload?: string;
  /** A command line prefix that enters another network. */
  enter?: readonly string[];
  /** Options of curl. */
  options?: readonly string[];
  /** The expected number of transferred bytes. */
  bytes: number;
}

/** Transfers a file and returns the time by curl's own clock. Received data is discarded. */
export async function transferMs(transfer: Transfer): Promise<number> {
  const { method, url, headers = {}, upload, enter = [], options: more = [], bytes } = transfer;
  // Without Expect, curl sends the file at once instead of asking first.
  const lines = Object.entries({ ...headers, Expect: "" }).map(([name, value]) => `header = "${name}: ${value}"`);
  const file = upload === undefined ? [] : ["--upload-file", upload];
  const options = ["--silent", "--show-error", "--output", "/dev/null", "--write-out", SAID, "--noproxy", "*"];
  // Headers go to standard input: they hold a token, and every user on the host can read arguments.
  const argv = [...enter, "curl", ...options, ...more, "--request", method, ...file, "--config", "-", url];
  const output = await run(argv, { stdin: lines.join("\n"), timeoutMs: TRANSFER_MS });
  const [status = 0, down = 0, up = 0, seconds = 0] = output.split(" ").map(Number);
  const carried = upload === undefined ? down : up;
  if (status < 200 || status > 299 || carried !== bytes) {
    throw new Fault(500, `${method} ${url} was answered with ${status} after ${carried} of ${bytes} bytes`);
  }
  return seconds * 1000;
}
