/** The environment of a user's shell after pasting the lines that the server printed. */
import type { TestServer } from "../server.ts";

/** Only these variables. `sudo` does nothing, because tests are root. */
export function printedEnv({ output }: Pick<TestServer, "output">): Record<string, string> {
  const [block = ""] = /^ {2}export E2B_API_URL=(?:.*\n)*? {2}export E2B_API_KEY=.*$/m.exec(output()) ?? [];
  const script = ['sudo() { "$@"; }', block, "exec env -0"].join("\n");
  const { stdout } = Bun.spawnSync(["sh", "-c", script], { env: { PATH: process.env.PATH ?? "" } });
  const variables = stdout
    .toString()
    .split("\0")
    .filter((line) => /^E2B_/.test(line));
  return Object.fromEntries(
    variables.map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
  );
}
