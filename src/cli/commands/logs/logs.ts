/** `sandlot logs`: the server's readable log, from the running server, the journal, a file or standard input. */
import { createReadStream, statSync } from "node:fs";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { Fault } from "../../../contract/fault.ts";
import { adminCall } from "../../admin-client.ts";
import type { Config } from "../../settings/config.ts";
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
  const { input, exited } = await opened(config, source);
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    const text = formatted(line, { level, request });
    if (text !== undefined) console.log(text);
  }
  return (await exited) ?? 0;
}

interface Source {
  input: Readable;
  /** The exit code of the program that writes the lines, if one does. */
  exited?: Promise<number>;
}

async function opened(config: Config, source: string | undefined): Promise<Source> {
  if (source === undefined) return { input: Readable.from([await (await adminCall(config, "GET /logs")).text()]) };
  if (source === "-") return { input: process.stdin };
  if (source === "journal") return journal();
  const found = statSync(source, { throwIfNoEntry: false });
  if (found === undefined) {
    throw new Fault(404, `there is no file ${source}; \`journal\` and \`-\` are possible, too`);
  }
  if (found.isDirectory()) throw new Fault(400, `${source} is a folder. FIX: name a file in it`);
  return { input: createReadStream(source) };
}

function journal(): Source {
  const program = Bun.which("journalctl", { PATH: process.env.PATH ?? "" });
  if (program === null) throw new Fault(404, "this machine has no journal. FIX: name the log file");
  const argv = [program, "--unit", UNIT, "--output", "cat", "--no-pager"];
  const { stdout, exited } = Bun.spawn(argv, { stderr: "inherit" });
  return { input: Readable.fromWeb(stdout as never), exited };
}
