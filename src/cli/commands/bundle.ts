/** `sandlot bundle`: one file with all that the first start fetches, for machines without a network. */
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { makeBundle } from "../../bundle/bundle.ts";
import type { Needs } from "../../bundle/cached-folders.ts";
import { Fault } from "../../contract/fault.ts";
import { templateImageSteps } from "../../setup/template-image.ts";
import { resticFolderStep } from "../../setup/tool-folder.ts";
import { Toolbox } from "../../system/toolbox.ts";
import { prepare, requireRoot, runscSteps } from "../prepare.ts";
import { Progress } from "../progress.ts";
import type { Config } from "../settings/config.ts";

const MB = 1_000_000;

export async function bundle(config: Config, file: string): Promise<number> {
  requireRoot();
  if (!existsSync(dirname(file))) throw new Fault(400, `there is no folder ${dirname(file)} for the bundle`);
  const { cacheFolder, debianMirror, templates } = config;
  const needs = needsOf(config);
  await prepare(config, [
    resticFolderStep(new Toolbox(cacheFolder), debianMirror),
    ...(needs.withRunsc ? runscSteps(config) : []),
    ...templates.flatMap((definition) => templateImageSteps(cacheFolder, debianMirror, definition)),
  ]);
  using progress = new Progress();
  progress.begin("collecting packages");
  const bytes = await makeBundle(file, needs, (line) => progress.line(line));
  progress.end();
  console.log(`${file}: ${Math.ceil(bytes / MB)} MB`);
  return 0;
}

/** What a start with these settings needs. */
export function needsOf({ cacheFolder, templates, runtime, runsc }: Config): Needs {
  return { cacheFolder, templates, withRunsc: runtime === "runsc" && runsc === undefined };
}
