/** Installs restic, and the packages that install it, before the first backup or restore. */
import { packagesStep } from "../setup/packages.ts";
import { makeSteps } from "../setup/setup.ts";
import { resticFolderStep } from "../setup/tool-folder.ts";
import { Toolbox } from "../system/toolbox.ts";

/** Returns restic's command line. */
export async function installedRestic(
  { cacheFolder, debianMirror }: { cacheFolder: string; debianMirror: string | undefined },
  say: (line: string) => void,
): Promise<string[]> {
  const toolbox = new Toolbox(cacheFolder);
  const steps = [() => packagesStep, () => resticFolderStep(toolbox, debianMirror)];
  await makeSteps(cacheFolder, steps, ({ kind, text }) => {
    if (kind === "begin" || kind === "wait") say(`sandlot: ${kind === "begin" ? `setting up ${text}` : text}`);
  });
  return toolbox.restic;
}
