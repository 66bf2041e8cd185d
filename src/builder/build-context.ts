/** State that one build step passes to the next besides the disk: user, working directory and variables. Pure. */
import { join, normalize } from "node:path/posix";
import { Fault } from "../contract/fault.ts";
import { PATH_DEFAULT } from "../contract/runtime/guest-programs.ts";
import { BUILD_VARIABLES_MAX_BYTES } from "./limits.ts";
import { expand } from "./variables.ts";

export interface BuildContext {
  user: string;
  home: string;
  workdir: string;
  envVars: Record<string, string>;
}

/** The values of `$VAR` in the arguments of a step. */
export function variablesOf({ user, home, envVars }: BuildContext): Record<string, string> {
  return { PATH: PATH_DEFAULT, HOME: home, USER: user, LOGNAME: user, ...envVars };
}

/** All values are expanded with the variables from before the step. */
export function withVariables(
  context: BuildContext,
  added: readonly (readonly [name: string, value: string])[],
): BuildContext {
  const before = variablesOf(context);
  const envVars = { ...context.envVars };
  for (const [name, value] of added) envVars[requireName(name)] = expand(value, before);
  const bytes = Object.entries(envVars).reduce((sum, [name, value]) => sum + Buffer.byteLength(name + value), 0);
  if (bytes > BUILD_VARIABLES_MAX_BYTES) {
    throw new Fault(
      422,
      `the variables have ${bytes} bytes together; at most ${BUILD_VARIABLES_MAX_BYTES} are possible`,
    );
  }
  return { ...context, envVars };
}

/** Resolves a path of a step: relative to the working directory, with `~` for the home. */
export function placeOf(context: BuildContext, given: string): string {
  const path = expand(given, variablesOf(context));
  if (path.includes("\0")) throw new Fault(422, `the path ${JSON.stringify(path)} contains a NUL byte`);
  if (path === "~" || path.startsWith("~/")) return normalize(`${context.home}/${path.slice(2)}`);
  return path.startsWith("/") ? normalize(path) : join(context.workdir || "/", path);
}

function requireName(name: string): string {
  if (name === "" || /[=\0]/.test(name)) {
    throw new Fault(422, `${JSON.stringify(name.slice(0, 100))} cannot name a variable`);
  }
  return name;
}
