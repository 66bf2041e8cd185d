/**
 * Runs programs with the official SDK in a separate process: on Node, where its connections are undici's and which most
 * people use, or on Bun; with variables that only a new process reads, such as its trusted certificates.
 */
import { join } from "node:path";
import type * as E2B from "e2b";

const PROJECT = join(import.meta.dir, "../../..");
const PROGRAM_MS = 100_000;

/** All that a program has: it is sent there as text. */
interface Given {
  Sandbox: typeof E2B.Sandbox;
  word: string;
  /** Waits, for as long as the program may take. */
  until(isSo: () => boolean | Promise<boolean>): Promise<void>;
}

export interface Where {
  runtime?: "node" | "bun";
  /** Prefix of its command line, such as that of another network. */
  enter?: readonly string[];
  env: Record<string, string>;
  word?: string;
}

export async function runWithSdk<T>(
  program: (given: Given) => Promise<T>,
  { runtime = "node", enter = [], env, word = "" }: Where,
): Promise<T> {
  const source = `
    import { Sandbox } from "e2b";
    const until = async (isSo) => { while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 5)); };
    console.log(JSON.stringify(await (${program})({ Sandbox, until, word: ${JSON.stringify(word)} })));
    process.exit();`;
  const argv = runtime === "node" ? ["node", "--input-type=module", "--eval"] : [process.execPath, "--eval"];
  const child = Bun.spawn([...enter, ...argv, source], {
    cwd: PROJECT,
    env: { PATH: process.env.PATH ?? "", ...env },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: PROGRAM_MS,
  });
  const [stdout, stderr] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if ((await child.exited) !== 0) throw new Error(`the program on ${runtime} failed or did not end:\n${stderr}`);
  return JSON.parse(stdout) as T;
}
