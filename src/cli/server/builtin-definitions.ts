/** Built-in templates: their definitions for control, and their builds at start-up. */
import { Fault } from "../../contract/fault.ts";
import type { TemplateDefinition } from "../../contract/template-definition.ts";
import type { Control } from "../../control/control.ts";
import type { BuiltinDefinition } from "../../control/templates/builtin-definition.ts";
import { firstBuildOf, hasTemplateImage, templateVersion } from "../../setup/template-image.ts";
import { Progress } from "../progress.ts";

/** Versions are computed on demand, to keep the first start fast. */
export function builtinDefinition(cacheFolder: string, definition: TemplateDefinition): BuiltinDefinition {
  const { id, name, start, cpuCount, memoryMB, diskSizeMB } = definition;
  let version: string | undefined;
  return {
    id,
    name,
    start,
    cpuCount,
    memoryMB,
    diskSizeMB,
    version: () => (version ??= templateVersion(definition)),
    hasImage: (image) => hasTemplateImage(cacheFolder, image),
    firstBuild: () => firstBuildOf(definition),
  };
}

/** A failed build does not stop the server: it is reported, and retried on demand. */
export async function buildAhead(control: Control, templates: readonly TemplateDefinition[]): Promise<void> {
  using progress = new Progress();
  for (const { name } of templates) {
    let hasBegun = false;
    try {
      await control.buildTemplate(name, (line) => {
        if (!hasBegun) progress.begin(buildOf(name));
        hasBegun = true;
        progress.line(line);
      });
      if (hasBegun) progress.end();
    } catch (error) {
      console.error(`sandlot: ${Fault.from(error).message}`);
    }
  }
}

/** The step of this build, as progress shows it. */
export function buildOf(name: string): string {
  return `building the template ${name}`;
}
