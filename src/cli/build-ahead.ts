/** Templates that come with Sandlot and that the operator wants built before somebody asks for them. */
import { Fault } from "../contract/fault.ts";
import type { TemplateDefinition } from "../contract/template-definition.ts";
import type { Control } from "../control/control.ts";
import { Progress } from "./progress.ts";

/** What cannot be built keeps no server from serving the rest: it is said, and tried again when it is asked for. */
export async function buildAhead(control: Control, templates: readonly TemplateDefinition[]): Promise<void> {
  using progress = new Progress();
  for (const { name } of templates) {
    let hasBegun = false;
    try {
      await control.buildTemplate(name, (line) => {
        if (!hasBegun) progress.begin(`building the template ${name}`);
        hasBegun = true;
        progress.line(line);
      });
      if (hasBegun) progress.end();
    } catch (error) {
      console.error(`sandlot: ${Fault.from(error).message}`);
    }
  }
}
