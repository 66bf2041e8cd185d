/** R through IRkernel. */
import { existsSync } from "node:fs";
import type { Language } from "../kernel.ts";
import { KernelProcess } from "../kernel-process.ts";
import { JupyterKernel, type JupyterLanguage } from "./jupyter-kernel.ts";

const INSTALLED = "/usr/bin/R";

const R: JupyterLanguage = {
  launch: async (connectionFile, folder) =>
    KernelProcess.start(["R", "--slave", "-e", "IRkernel::main()", "--args", connectionFile], folder),
  chores: {
    setVariables: (variables) => {
      const removed = Object.keys(variables).filter((name) => variables[name] === null);
      const set = Object.entries(variables).filter((entry): entry is [string, string] => entry[1] !== null);
      const lines = [`base::Sys.unsetenv(c(${removed.map(text).join(", ")}))`];
      if (set.length > 0) {
        const names = set.map(([name]) => text(name)).join(", ");
        const values = set.map(([, value]) => text(value)).join(", ");
        lines.push(`base::do.call(base::Sys.setenv, base::structure(list(${values}), names = c(${names})))`);
      }
      return lines.filter((line) => !line.endsWith("(c())")).join("\n");
    },
    setFolder: (path) => `base::setwd(${text(path)})`,
    // R's default seed uses clock and process id, which are the same in copies of a sandbox.
    reseed: () => 'base::set.seed(base::readBin("/dev/urandom", "integer", 1))',
  },
};

/** Undefined: not installed. */
export function rLanguage(runFolder: string): Language | undefined {
  if (!existsSync(INSTALLED)) return undefined;
  return { name: "r", start: (folder) => JupyterKernel.start(runFolder, R, folder) };
}

/** An R string literal: R knows JSON's escapes, except those of surrogate halves. */
function text(value: string): string {
  const escaped = value.replaceAll(/[\\"\n\r\t]/g, (unit) => JSON.stringify(unit).slice(1, -1));
  return `"${escaped.replaceAll("\0", "")}"`;
}
