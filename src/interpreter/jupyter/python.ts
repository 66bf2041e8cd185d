/** Python through ipykernel. The package sandlot_kernel, which it loads at its start, holds Sandlot's additions. */
import { asciiLine } from "../json-text.ts";
import type { Language } from "../kernel.ts";
import { JupyterKernel, type JupyterLanguage } from "./jupyter-kernel.ts";
import { Seed } from "./seed.ts";

const PACKAGE_FOLDER = "/opt/sandlot/python";

/** The seed process; kernels are forks of it. */
const SEED = ["python3", "-m", "sandlot_kernel.seed"];
const KERNEL_OPTIONS = ["--ext=sandlot_kernel", "--HistoryManager.enabled=False"];

const CHORES: JupyterLanguage["chores"] = {
  setVariables: (variables) => call("set_variables", variables),
  setFolder: (path) => call("set_folder", path),
  reseed: () => "__import__('sandlot_kernel').reseed()",
};

export function pythonLanguage(runFolder: string): Language {
  let seed: Seed | undefined;
  const launch: JupyterLanguage["launch"] = (connectionFile, folder) => {
    // Code in the sandbox may have killed the seed.
    if (seed === undefined || seed.hasEnded) seed = new Seed(SEED, { PYTHONPATH: PACKAGE_FOLDER });
    return seed.fork(["-f", connectionFile, ...KERNEL_OPTIONS], folder);
  };
  return { name: "python", start: (folder) => JupyterKernel.start(runFolder, { launch, chores: CHORES }, folder) };
}

/** Encodes JSON twice: the outer string is valid as a Python literal, the inner one as JSON. */
function call(name: string, value: unknown): string {
  return `__import__('sandlot_kernel').${name}(__import__('json').loads(${JSON.stringify(asciiLine(JSON.stringify(value)))}))`;
}
