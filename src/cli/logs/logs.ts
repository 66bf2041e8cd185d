/** `sandlot logs`: the server's log for people, from the running server, the journal, a file or standard input. */
import { createReadStream, existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { Fault } from "../../contract/fault.ts";
import { adminCall } from "../admin/admin-client.ts";
import type { Config } from "../config.ts";
import { formatted, LEVELS } from "./log-format.ts";

const UNIT = "sandlot";

interface LogsOptions {
  /** `journal`, `-` for standard input, or a file. Undefined: the newest lines of the running server. */
  source: string | undefined;
  level: string;
  request: string | undefined;
}

export async function logs(config: Config, { source, level: named, request }: LogsOptions): Promise<number> {
  const level = LEVELS.find((each) => each === named);
  if (level === undefined) throw new Fault(400, `--level must be ${LEVELS.join(", ")}, not "${named}"`);
  for await (const line of createInterface({
    input: await opened(config, source),
    crlfDelay: Number.POSITIVE_INFINITY,
  })) {
    const text = formatted(line, { level, request });
    if (text !== undefined) console.log(text);
  }
  return 0;
}

async function opened(config: Config, source: string | undefined): Promise<Readable> {
  if (source === undefined) return Readable.from([await (await adminCall(config, "GET /logs")).text()]);
  if (source === "-") return process.stdin;
  if (source === "journal") return journal();
  if (!existsSync(source)) throw new Fault(404, `there is no file ${source}; \`journal\` and \`-\` are possible, too`);
  return createReadStream(source);
}

function journal(): Readable {
  if (Bun.which("journalctl") === null) throw new Fault(404, "this machine has no journal. FIX: name the log file");
  const { stdout } = Bun.spawn(["journalctl", "--unit", UNIT, "--output", "cat", "--no-pager"], { stderr: "inherit" });
  return Readable.fromWeb(stdout as never);
}
