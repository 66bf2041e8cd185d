/** Which built-in templates a test file needs, by its folder. */
import { LONG } from "../../src/base/testing/long.ts";
import type { Config } from "../../src/cli/settings/config.ts";
import type { SetupStep } from "../../src/setup/step.ts";
import { templateImageSteps } from "../../src/setup/template-image.ts";

const ALL = ["code-interpreter-v1", "mcp-gateway", "desktop"];

const NEEDED: Readonly<Record<string, readonly string[]>> = {
  "tests/functional/interpreter/": ["code-interpreter-v1", ...(LONG ? ["code-interpreter-full"] : [])],
  "tests/functional/mcp/": ["mcp-gateway"],
  "tests/functional/desktop/": ["desktop"],
  "tests/functional/examples/": ALL,
  "examples/": ALL,
};

/** Whether a file uses a built-in template. The server that has it built takes a while to start. */
export function usesTemplate(file: string): boolean {
  return Object.keys(NEEDED).some((folder) => file.startsWith(folder));
}

/** The set-up steps that these test files need. */
export function templateStepsFor(config: Config, files: readonly string[]): SetupStep[] {
  const { cacheFolder, debianMirror, definitions } = config;
  const needed = Object.entries(NEEDED).flatMap(([folder, templates]) => {
    return files.some((file) => file.startsWith(folder)) ? templates : [];
  });
  return definitions
    .filter(({ name }) => needed.includes(name))
    .flatMap((definition) => templateImageSteps(cacheFolder, debianMirror, definition));
}
