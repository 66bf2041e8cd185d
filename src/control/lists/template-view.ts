/** Templates as clients see them. */
import {
  NO_BUILD_ID,
  type Template,
  type TemplateTag,
  type TemplateWithBuilds,
} from "../../contract/management/template.ts";
import { RUNTIME_VERSION } from "../../contract/runtime/version.ts";
import type { Build } from "../../store/builds.ts";
import type { ListedTemplate } from "../../store/listed-templates.ts";
import { namesOf } from "../templates/template-visibility.ts";

type Shared = Omit<TemplateWithBuilds, "builds">;

export function asTemplate(listed: ListedTemplate): Template {
  const { template, creator, build, newest } = listed;
  return {
    ...shared(listed),
    buildID: build?.status === "ready" ? build.id : NO_BUILD_ID,
    cpuCount: build?.cpuCount ?? 0,
    memoryMB: build?.memoryMB ?? 0,
    diskSizeMB: build?.diskSizeMB ?? 0,
    createdBy: creator,
    buildCount: template.buildCount,
    envdVersion: build?.guestVersion ?? RUNTIME_VERSION,
    buildStatus: newest?.status ?? "waiting",
  };
}

export function withBuilds(listed: ListedTemplate, builds: readonly Build[]): TemplateWithBuilds {
  return { ...shared(listed), builds: builds.map(asBuild) };
}

export function asTag({ tag, buildId, createdAt }: { tag: string; buildId: string; createdAt: number }): TemplateTag {
  return { tag, buildID: buildId, createdAt: new Date(createdAt).toISOString() };
}

function shared({ template, names }: ListedTemplate): Shared {
  const { id, createdAt, updatedAt, lastSpawnedAt, spawnCount } = template;
  return {
    templateID: id,
    public: template.public,
    aliases: [...new Set(names.map(({ alias }) => alias))],
    names: namesOf(names),
    createdAt: new Date(createdAt).toISOString(),
    updatedAt: new Date(updatedAt).toISOString(),
    lastSpawnedAt: lastSpawnedAt === null ? null : new Date(lastSpawnedAt).toISOString(),
    spawnCount,
  };
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
