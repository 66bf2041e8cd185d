/**
 * The official command line as a user of this server has it: the user's variables, a home of its own, no update checks.
 */
import { join } from "node:path";
import { folderOfFile } from "../../src/base/testing/test-folder.ts";
import type { TestServer } from "./server.ts";

const PROGRAM = join(import.meta.dir, "../../node_modules/.bin/e2b");
const COMMAND_MS = 100_000;

interface CliAnswer {
  exitCode: number;
  stdout: string;
  stderr: string;
}

interface Cli {
  /** Runs `e2b sandbox …` to its end; without `input` its standard input is no pipe. */
  sandbox(args: string[], input?: string | Uint8Array): Promise<CliAnswer>;
  /** `e2b template …` in the same way; in this folder if one is given. */
  template(args: string[], folder?: string): Promise<CliAnswer>;
  /** `e2b sandbox …` as a command line and variables, for callers that run it in another way. */
  command(args: string[]): { argv: string[]; env: Record<string, string> };
}

function byUrl({ url }: TestServer): Record<string, string> {
  return { E2B_API_URL: url, E2B_SANDBOX_URL: url };
}

/** How it finds the server: by default at its one URL. */
export function cliOfFile(server: () => TestServer, addresses = byUrl): Cli {
  const home = folderOfFile("cli");

  const commandOf = (args: string[]) => ({
    argv: ["node", PROGRAM, ...args],
    env: {
      PATH: process.env.PATH ?? "",
      HOME: home,
      TERM: "xterm-256color",
      LANG: "C.UTF-8",
      NO_UPDATE_NOTIFIER: "1",
      NO_COLOR: "1",
      E2B_API_KEY: server().apiKey,
      ...addresses(server()),
    },
  });

  async function run(args: string[], stdin: "ignore" | Uint8Array, cwd = home): Promise<CliAnswer> {
    const { argv, env } = commandOf(args);
    const child = Bun.spawn(argv, { env, cwd, stdio: [stdin, "pipe", "pipe"], timeout: COMMAND_MS });
    const [stdout, stderr, exitCode] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    return { exitCode, stdout, stderr };
  }

  return {
    sandbox(args, input) {
      const bytes = typeof input === "string" ? new TextEncoder().encode(input) : input;
      return run(["sandbox", ...args], bytes ?? "ignore");
    },
    template: (args, folder) => run(["template", ...args], "ignore", folder),
    command: (args) => commandOf(["sandbox", ...args]),
  };
}
