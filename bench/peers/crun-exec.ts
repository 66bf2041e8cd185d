/** The shortest way to run a command in a sandbox: crun itself, as root on the host, without server and guest. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { BASE_TEMPLATE } from "../../src/contract/management/base-template.ts";
import { FILTER_ANNOTATION } from "../../src/sandbox/runtime/crun/compiled-filter.ts";
import type { Context } from "../context.ts";
import { runBare } from "./program.ts";

/** The first user of the base image. */
const USER = "1000:1000";

export async function execInSandbox({ toolbox, data }: Context, id: string, argv: string[]): Promise<void> {
  const { defaultUser, defaultWorkdir } = BASE_TEMPLATE;
  const as = [
    "--user",
    USER,
    "--cwd",
    defaultWorkdir,
    "--env",
    `HOME=${defaultWorkdir}`,
    "--env",
    `USER=${defaultUser}`,
  ];
  await runBare([...toolbox.crun, "--root", data.crunFolder, "exec", ...as, id, ...argv]);
}

/**
 * Whether crun finds a precompiled seccomp filter in this sandbox. In the few sandboxes that a server boots before it
 * has one, crun compiles the filter for each command.
 */
export function hasReadyFilter({ data }: Context, id: string): boolean {
  return readFileSync(join(data.sandboxesFolder, id, "config.json"), "utf8").includes(FILTER_ANNOTATION);
}
