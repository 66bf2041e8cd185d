/**
 * Checks the texts of a Start request. The kernel cuts each text at its first NUL byte, and a variable's name at its
 * first `=`. Such texts are rejected with the client's own name for the field.
 */
import { quote } from "../system/quote.ts";
import { refuse } from "../system/rpc-fault.ts";

/** The program to run, in its wire form. */
export interface ProcessTexts {
  cmd: string;
  args: string[];
  envs: Record<string, string>;
  cwd?: string | undefined;
}

const NUL = "\0";

export function requirePlainTexts({ cmd, args, envs }: ProcessTexts): void {
  if (cmd.includes(NUL)) throw refuse("invalid_argument", `process.cmd contains a NUL byte: ${quote(cmd)}`);
  for (const [index, argument] of args.entries()) {
    if (!argument.includes(NUL)) continue;
    throw refuse("invalid_argument", `argument ${index + 1} in process.args contains a NUL byte: ${quote(argument)}`);
  }
  for (const [name, value] of Object.entries(envs)) requireVariable(name, value);
}

function requireVariable(name: string, value: string): void {
  if (name === "") throw refuse("invalid_argument", "process.envs has a variable without a name");
  const shown = `the variable ${quote(name)} in process.envs`;
  if (name.includes(NUL)) throw refuse("invalid_argument", `${shown} contains a NUL byte in its name`);
  if (name.includes("=")) throw refuse("invalid_argument", `${shown} contains "=" in its name`);
  if (value.includes(NUL)) throw refuse("invalid_argument", `${shown} contains a NUL byte in its value`);
}
