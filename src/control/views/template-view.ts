/** Converts templates into their API responses. */
import {
  NO_BUILD_ID,
  type Template,
  type TemplateTag,
  type TemplateWithBuilds,
} from "../../contract/management/template.ts";
import { RUNTIME_VERSION } from "../../contract/runtime/version.ts";
import type { Build } from "../../store/builds.ts";
import type { ListedTemplate } from "../../store/listed-templates.ts";
import type { BuiltinDefinition } from "../templates/builtin-definition.ts";
import { DEFAULT_TAG } from "../templates/template-reference.ts";
import { namesOf } from "../templates/template-visibility.ts";

type Shared = Omit<TemplateWithBuilds, "builds">;

/**
 * A definition marks a built-in template: it has no creator, and its start counts cover all teams, so they are not
 * shown.
 */
export function asTemplate(listed: ListedTemplate, definition?: BuiltinDefinition): Template {
  const { template, creator, build, newest } = listed;
  const size = build ?? definition;
  return {
    ...shared(listed, definition),
    buildID: build?.status === "ready" ? build.id : NO_BUILD_ID,
    cpuCount: size?.cpuCount ?? 0,
    memoryMB: size?.memoryMB ?? 0,
    diskSizeMB: size?.diskSizeMB ?? 0,
    createdBy: definition === undefined ? creator : null,
    buildCount: template.buildCount,
    envdVersion: build?.guestVersion ?? RUNTIME_VERSION,
    buildStatus: newest?.status ?? "waiting",
  };
}

export function withBuilds(
  listed: ListedTemplate,
  builds: readonly Build[],
  definition?: BuiltinDefinition,
): TemplateWithBuilds {
  return { ...shared(listed, definition), builds: builds.map(asBuild) };
}

export function asTag({ tag, buildId, createdAt }: { tag: string; buildId: string; createdAt: number }): TemplateTag {
  return { tag, buildID: buildId, createdAt: new Date(createdAt).toISOString() };
}

function shared({ template, names, build }: ListedTemplate, definition: BuiltinDefinition | undefined): Shared {
  const { id, createdAt, updatedAt, lastSpawnedAt, spawnCount } = template;
  const isOwn = definition === undefined;
  return {
    templateID: id,
    public: template.public,
    aliases: [...new Set(names.map(({ alias }) => alias))],
    names: isOwn ? namesOf(names) : withVersion(namesOf(names), build, definition),
    createdAt: new Date(createdAt).toISOString(),
    updatedAt: new Date(updatedAt).toISOString(),
    lastSpawnedAt: lastSpawnedAt === null || !isOwn ? null : new Date(lastSpawnedAt).toISOString(),
    spawnCount: isOwn ? spawnCount : 0,
  };
}

/** Adds each name with its version: the one that is built, else the one that would be. */
function withVersion(names: readonly string[], build: Build | undefined, definition: BuiltinDefinition): string[] {
  const built = build?.status === "ready" ? build.tags.find((tag) => tag !== DEFAULT_TAG) : undefined;
  const version = built ?? definition.version();
  return names.flatMap((name) => [name, `${name}:${version}`]);
}

function asBuild(build: Build): TemplateWithBuilds["builds"][number] {
  const { id, status, createdAt, updatedAt, finishedAt, cpuCount, memoryMB, diskSizeMB, guestVersion } = build;
  return {
    buildID: id,
    status,
    createdAt: new Date(createdAt).toISOString(),
    updatedAt: new Date(updatedAt).toISOString(),
    ...(finishedAt === null ? {} : { finishedAt: new Date(finishedAt).toISOString() }),
    cpuCount,
    memoryMB,
    diskSizeMB,
    envdVersion: guestVersion ?? RUNTIME_VERSION,
  };
}
