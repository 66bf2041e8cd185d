/** Runs programs of `examples` and of pages in the documentation, with the server's printed environment. */
import { run } from "../../../src/system/command.ts";
import { PROJECT, readText } from "../../conventions/source-files.ts";
import type { TestServer } from "../server.ts";
import { FreshClone } from "./fresh-clone.ts";
import { printedEnv } from "./printed-env.ts";

const PROGRAM_MS = 120_000;

/** The lines that a program of `examples` prints when it is run as its README says: in a fresh clone. */
export async function runExample(name: string, server: TestServer): Promise<string[]> {
  const [, shown = ""] = /^(node examples\/)[\w-]+\.mjs$/m.exec(readText("examples/README.md")) ?? [];
  using clone = new FreshClone();
  const output = await clone.run(`${shown}${name}`.split(" "), printedEnv(server), PROGRAM_MS);
  return output.trimEnd().split("\n");
}

/** The blocks of TypeScript on a page, in their order. */
export function typeScriptIn(page: string): string[] {
  return [...readText(page).matchAll(/^```ts\n(.*?)^```/gms)].map(([, code = ""]) => code);
}

/** What a program prints. It runs in the project, where it finds the clients. */
export async function printedBy(code: string, server: TestServer): Promise<string> {
  return await run([process.execPath, "-e", code], { cwd: PROJECT, env: printedEnv(server), timeoutMs: PROGRAM_MS });
}
