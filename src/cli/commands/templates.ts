/** `sandlot templates …`: lists templates with disk use, ready pool and isolation runtime, and sets the last two. */
import { join } from "node:path";
import { Fault } from "../../contract/fault.ts";
import { MIB } from "../../contract/limit.ts";
import { isRuntimeName, RUNTIME_NAMES, type RuntimeName } from "../../contract/runtime-name.ts";
import { DEFAULT_TEAM_SLUG } from "../../control/access/people.ts";
import { setKeptReady, setRuntime } from "../../control/templates/operator-templates.ts";
import { type StoredBytes, storedBytes } from "../../images/disk/stored-bytes.ts";
import { type PoolReport, readPoolReport } from "../../sandbox/pool/pool-report.ts";
import { templateVersion } from "../../setup/template-image.ts";
import type { Store } from "../../store/store.ts";
import type { TemplateOverview } from "../../store/templates.ts";
import { ownEnv } from "../../system/command.ts";
import { DataFolder } from "../../system/data-folder.ts";
import { MountNamespace } from "../../system/mount/mount-namespace.ts";
import { isoTime } from "../iso-time.ts";
import { prepare, requireRoot, runscSteps } from "../prepare.ts";
import { type Config, READY_MAX } from "../settings/config.ts";
import { recording, withStore } from "../with-store.ts";
import { stateOf } from "./builtin-templates.ts";

const UNSEEN = "?";
/** Instead of an isolation runtime: the server's setting. */
const BY_SETTING = "default";

export function listTemplates(config: Config): Promise<number> {
  requireRoot();
  enterMounts(config);
  return withStore(config, async (store) => {
    for (const line of await listed(store, config)) console.log(line);
    return 0;
  });
}

export function changeReady(config: Config, name: string, written: string): Promise<number> {
  const count = parseCount(written);
  return withStore(config, async (store) => {
    const changed = await setKeptReady(
      store,
      DEFAULT_TEAM_SLUG,
      { written: name, count },
      config.definitions,
      recording(store, "templates ready"),
    );
    console.log(templateLine(changed, config));
    return 0;
  });
}

/** A running server finds runsc once it is installed. */
export function changeRuntime(config: Config, name: string, written: string): Promise<number> {
  const runtime = parseRuntimeName(written);
  return withStore(config, async (store) => {
    console.log(
      templateLine(
        await setRuntime(store, DEFAULT_TEAM_SLUG, name, runtime, recording(store, "templates wall")),
        config,
      ),
    );
    const steps = runtime === "runsc" ? runscSteps(config) : [];
    if (steps.some((step) => !step.done())) await prepare(config, steps);
    return 0;
  });
}

/** The server's mounts are only visible in its mount namespace. */
function enterMounts(config: Config): void {
  const namespace = new MountNamespace(new DataFolder(config.dataFolder));
  if (namespace.entered || !namespace.exists) return;
  namespace.continueInside([join(import.meta.dir, "../main.ts"), "templates"], ownEnv());
}

async function listed(store: Store, { dataFolder, definitions }: Config): Promise<string[]> {
  const stored = await storedBytes(dataFolder);
  const pool = readPoolReport(new DataFolder(dataFolder));
  const all = await store.templates.overview();
  const lines = all.map((template) => {
    const definition = definitions.find(({ id }) => id === template.id);
    const more = definition ? [`version=${templateVersion(definition)}`, `state=${stateOf(definition, template)}`] : [];
    more.push(...poolState(template, pool));
    return [
      templateLine(template, { definitions }),
      ...more,
      `disk=${formatSize(stored && bytesOf(template, stored))}`,
    ].join("  ");
  });
  if (stored === undefined) return [...lines, "disk use is shown while the server runs"];
  const [images, checkpoints] = [sum(stored.images.values()), sum(stored.checkpoints.values())];
  return [
    ...lines,
    `all images ${formatSize(images)}, checkpoints ${formatSize(checkpoints)}, layers ${formatSize(stored.layers)}`,
  ];
}

function templateLine(template: TemplateOverview, { definitions }: Pick<Config, "definitions">): string {
  const { id, names, teamSlug, builds, spawnCount, lastSpawnedAt, keptReady, wall } = template;
  const ready = builds.filter(({ status }) => status === "ready").length;
  const isDefined = definitions.some((definition) => definition.id === id);
  return [
    id,
    names.length === 0 ? "(no name)" : names.join(","),
    `team=${teamSlug ?? "(built in)"}`,
    `builds=${ready}/${builds.length}`,
    // For base, the setting decides.
    `ready=${teamSlug === null && !isDefined ? "(setting)" : keptReady}`,
    `wall=${wall ?? "(setting)"}`,
    `started=${spawnCount}`,
    `last=${lastSpawnedAt === null ? "never" : isoTime(lastSpawnedAt)}`,
  ].join("  ");
}

/** From a running server: ready sandboxes of the target, and creates served from the pool. */
function poolState({ id }: TemplateOverview, pool: PoolReport | undefined): string[] {
  const own = pool?.templates.find(({ templateId }) => templateId === id);
  if (own === undefined) return [];
  const served = own.hits + own.joined;
  return [`pool=${own.ready}/${own.target}`, `hits=${served}/${served + own.misses}`];
}

/** Builds may share an image or a checkpoint. */
function bytesOf({ builds }: TemplateOverview, { images, checkpoints }: StoredBytes): number {
  const named = (of: "image" | "checkpoint") => new Set(builds.flatMap((build) => build[of] ?? []));
  const inImages = [...named("image")].map((name) => images.get(name) ?? 0);
  const inCheckpoints = [...named("checkpoint")].map((name) => checkpoints.get(name) ?? 0);
  return sum([...inImages, ...inCheckpoints]);
}

function formatSize(bytes: number | undefined): string {
  return bytes === undefined ? UNSEEN : `${Math.ceil(bytes / MIB)}MB`;
}

function sum(numbers: Iterable<number>): number {
  return [...numbers].reduce((total, number) => total + number, 0);
}

function parseRuntimeName(text: string): RuntimeName | null {
  if (text === BY_SETTING) return null;
  if (isRuntimeName(text)) return text;
  throw new Fault(
    400,
    `an isolation runtime is ${RUNTIME_NAMES.join(" or ")}, or ${BY_SETTING} for the setting, not "${text}"`,
  );
}

function parseCount(text: string): number {
  const count = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (count >= 0 && count <= READY_MAX) return count;
  throw new Fault(400, `the number that is kept ready must be a whole number from 0 to ${READY_MAX}, not "${text}"`);
}
