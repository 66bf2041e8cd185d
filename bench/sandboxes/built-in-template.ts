/** Built-in templates for the rows about them: the server builds each once, on first use. */
import { existsSync } from "node:fs";
import { Fault } from "../../src/contract/fault.ts";
import type { TemplateDefinition } from "../../src/contract/template-definition.ts";
import { DEFINED_READY } from "../../src/control/first-run.ts";
import { imageBelow, imageFolder } from "../../src/images/image-folder.ts";
import { templateImage } from "../../src/setup/template-image.ts";
import type { Context } from "../context.ts";
import { sandboxId } from "./creating.ts";

const BUILD_MS = 300_000;
const ASK_MS = 500;

interface BuiltTemplate {
  name: string;
  /** Folders of its root filesystem, the topmost first. */
  layers: string[];
}

const builds = new WeakMap<Context, Map<string, Promise<BuiltTemplate>>>();

/** Not measured if its root filesystem is missing, because making it takes minutes and packages. */
export async function builtTemplate(
  context: Context,
  definition: TemplateDefinition,
): Promise<BuiltTemplate | { notMeasured: string }> {
  const { name } = definition;
  const image = templateImage(definition);
  if (!existsSync(imageFolder(context.cacheFolder, image))) {
    const how = `start a server and run: sudo node bin/sandlot templates build ${name}`;
    return { notMeasured: `the template ${name} of this version is not made on this machine; ${how}` };
  }
  const known = builds.get(context) ?? new Map<string, Promise<BuiltTemplate>>();
  builds.set(context, known);
  const built = known.get(name) ?? build(context, name, layersOf(context.cacheFolder, image));
  known.set(name, built);
  return await built;
}

function layersOf(cacheFolder: string, image: string): string[] {
  const below = imageBelow(cacheFolder, image);
  return [imageFolder(cacheFolder, image), ...(below === null ? [] : layersOf(cacheFolder, below))];
}

/** The first create starts the build; later ones are rejected until it is done. */
async function build(context: Context, name: string, layers: string[]): Promise<BuiltTemplate> {
  for (const deadline = performance.now() + BUILD_MS; ; await Bun.sleep(ASK_MS)) {
    const made = await context.call("POST", "/v2/sandboxes", { templateID: name }).catch((refused: Fault) => refused);
    if (!(made instanceof Fault)) {
      await context.call("DELETE", `/sandboxes/${sandboxId(made)}`);
      context.keptReady += DEFINED_READY;
      return { name, layers };
    }
    if (!made.message.includes("template_building") || performance.now() > deadline) throw made;
  }
}
