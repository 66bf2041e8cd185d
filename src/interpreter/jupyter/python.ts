/** Python, by ipykernel. What is particular about ours is the package sandlot_kernel, which it loads at its start. */
import { asciiLine } from "../json-text.ts";
import type { Language } from "../kernel.ts";
import { JupyterKernel, type JupyterLanguage } from "./jupyter-kernel.ts";

const PACKAGE_FOLDER = "/opt/sandlot/python";

const PYTHON: JupyterLanguage = {
  argv: (connectionFile) => [
    "python3",
    "-m",
    "ipykernel_launcher",
    "-f",
    connectionFile,
    "--ext=sandlot_kernel",
    "--HistoryManager.enabled=False",
  ],
  variables: { PYTHONPATH: PACKAGE_FOLDER },
  chores: {
    setVariables: (variables) => call("set_variables", variables),
    setFolder: (path) => call("set_folder", path),
    reseed: () => "__import__('sandlot_kernel').reseed()",
  },
};

export function pythonLanguage(runFolder: string): Language {
  return { name: "python", start: (folder) => JupyterKernel.start(runFolder, PYTHON, folder) };
}

/** Twice JSON: what it is for Python's own reading of strings is JSON for its reading of JSON. */
function call(name: string, value: unknown): string {
  return `__import__('sandlot_kernel').${name}(__import__('json').loads(${JSON.stringify(asciiLine(JSON.stringify(value)))}))`;
}
