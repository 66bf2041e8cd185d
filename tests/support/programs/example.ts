/** Runs a program of `examples` as its README says: in a fresh clone, with the server's printed environment. */
import { readText } from "../../conventions/source-files.ts";
import type { TestServer } from "../server.ts";
import { FreshClone } from "./fresh-clone.ts";
import { printedEnv } from "./printed-env.ts";

const PROGRAM_MS = 120_000;

/** The lines that it prints. */
export async function runExample(name: string, server: TestServer): Promise<string[]> {
  const [, shown = ""] = /^(node examples\/)[\w-]+\.mjs$/m.exec(readText("examples/README.md")) ?? [];
  using clone = new FreshClone();
  const said = await clone.run(`${shown}${name}`.split(" "), printedEnv(server), PROGRAM_MS);
  return said.trimEnd().split("\n");
}
