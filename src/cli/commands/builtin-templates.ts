/** `sandlot templates build`, and the state of built-in templates. */
import { existsSync } from "node:fs";
import { systemClock } from "../../base/clock.ts";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import type { TemplateDefinition } from "../../contract/template-definition.ts";
import { builtinBuild } from "../../control/builds/builtin-builds.ts";
import { createIds } from "../../control/ids.ts";
import { templateImage, templateImageSteps, templateVersion } from "../../setup/template-image.ts";
import type { Build } from "../../store/builds.ts";
import type { Store } from "../../store/store.ts";
import type { TemplateOverview } from "../../store/templates.ts";
import { DataFolder } from "../../system/data-folder.ts";
import { hasStore } from "../folder-store.ts";
import { prepare, requireRoot } from "../prepare.ts";
import { Progress } from "../progress.ts";
import { buildOf, builtinDefinition } from "../server/builtin-definitions.ts";
import { runningServer } from "../server-file.ts";
import { type Config, definitionOf } from "../settings/config.ts";
import { withStore } from "../with-store.ts";

/** Interval for polling the progress of a build on a running server, and how long that server may take to begin it. */
const BUILD_POLL_MS = 250;
const BUILD_TAKEN_UP_MS = scaled(60_000);

const LOG_PAGE = 100;

/** `sandlot templates build NAME…`: on the running server, or as far as possible without one. */
export async function buildTemplates(config: Config, names: readonly string[]): Promise<number> {
  requireRoot();
  const definitions = names.map(definitionOf);
  for (const definition of definitions) {
    if (isServed(config)) await withStore(config, (store) => buildBesideServer(config, store, definition));
    else await buildWithoutServer(config, definition);
  }
  return 0;
}

export function stateOf(definition: TemplateDefinition, { builds }: TemplateOverview): string {
  const has = (wanted: (build: TemplateOverview["builds"][number]) => boolean) => builds.some(wanted);
  if (has(({ status, image }) => status === "ready" && image === templateImage(definition))) return "built";
  if (has(({ status }) => status === "building" || status === "waiting")) return "being built";
  if (has(({ status }) => status === "ready")) return "an older version is built";
  return has(({ status }) => status === "error") ? "not built (the last build failed)" : "not built";
}

async function buildBesideServer(config: Config, store: Store, definition: TemplateDefinition): Promise<void> {
  const { name } = definition;
  const services = { store, clock: systemClock, ids: createIds() };
  const build = await builtinBuild(services, builtinDefinition(config.cacheFolder, definition));
  if (build === undefined) throw new Fault(409, `the server that runs does not know ${name}. FIX: start it again`);
  if (build.status === "ready") return console.log(`${name} ${templateVersion(definition)} is built`);
  using progress = new Progress();
  progress.begin(buildOf(name));
  const { reason } = await over(config, store, build, progress);
  if (reason !== null) throw new Fault(422, `${name} could not be built: ${reason.message}`);
  progress.end();
  console.log(`${name} ${templateVersion(definition)} is built`);
}

async function over(config: Config, store: Store, { id }: Build, progress: Progress): Promise<Build> {
  const begun = systemClock.now();
  for (let offset = 0; ; await Bun.sleep(BUILD_POLL_MS)) {
    const build = await store.builds.byId(id);
    for (const { message } of await store.buildLogs.read(id, { offset, limit: LOG_PAGE, level: undefined })) {
      progress.line(message);
      offset++;
    }
    if (build === undefined) throw new Fault(500, `the build ${id} is gone from the store`);
    if (build.status === "ready" || build.status === "error") return build;
    const isLeft = !isServed(config) || (build.status === "waiting" && systemClock.now() - begun > BUILD_TAKEN_UP_MS);
    if (isLeft)
      throw new Fault(503, `the server does not continue build ${id}. FIX: sandlot up, which starts it again`);
  }
}

/** The next start does the rest, which needs a sandbox. */
async function buildWithoutServer(config: Config, definition: TemplateDefinition): Promise<void> {
  const { name } = definition;
  await prepare(config, templateImageSteps(config.cacheFolder, config.debianMirror, definition));
  const services = { clock: systemClock, ids: createIds() };
  const build = hasStore(config)
    ? await withStore(config, (store) =>
        builtinBuild({ ...services, store }, builtinDefinition(config.cacheFolder, definition)),
      )
    : undefined;
  if (build?.status === "ready") return console.log(`${name} ${templateVersion(definition)} is built`);
  const rest =
    build === undefined ? `\`sandlot up --with ${name}\` does the rest` : "the next `sandlot up` does the rest";
  console.log(`the root filesystem of ${name} ${templateVersion(definition)} is made; no server runs, so ${rest}`);
}

function isServed(config: Config): boolean {
  return existsSync(config.dataFolder) && runningServer(new DataFolder(config.dataFolder)) !== undefined;
}
