/** Templates, from which sandboxes are created. */
import { z } from "zod";
import { dateTime, page, templateId } from "./identifiers.ts";
import { TEMPLATE_REFERENCE_MAX_CHARS, TEMPLATE_TAG_MAX_CHARS, TEMPLATE_TAGS_MAX } from "./limits.ts";

/** Stands for the id of a missing build. */
export const NO_BUILD_ID = "00000000-0000-0000-0000-000000000000";

const buildStatus = z.enum(["building", "waiting", "ready", "error"]);

const names = z.array(z.string()).describe("namespace/alias; the bare alias if it is public for all teams");
const size = { cpuCount: z.int32(), memoryMB: z.int32(), diskSizeMB: z.int32() };
const shared = {
  templateID: templateId,
  public: z.boolean().describe("Whether other teams can use it"),
  aliases: z.array(z.string()).describe("The same without namespaces"),
  names,
  createdAt: dateTime,
  updatedAt: dateTime,
  lastSpawnedAt: dateTime.nullable().describe("When a sandbox was last created from it"),
  spawnCount: z.int().describe("Number of sandboxes created from it"),
};

export const template = z.object({
  ...shared,
  ...size,
  buildID: z.guid().describe("The last successful build under the tag default; all zeros if there is none"),
  createdBy: z.object({ id: z.uuid(), email: z.string() }).nullable(),
  buildCount: z.int32().describe("Number of requested builds"),
  envdVersion: z.string(),
  buildStatus: buildStatus.describe("Of the last requested build under the tag default"),
});

const templateBuild = z.object({
  buildID: z.uuid(),
  status: buildStatus,
  createdAt: dateTime,
  updatedAt: dateTime,
  finishedAt: dateTime.optional(),
  ...size,
  envdVersion: z.string(),
});

export const templateWithBuilds = z.object({
  ...shared,
  builds: z.array(templateBuild).describe("Newest first, one page"),
});

const teamID = z.string().optional().describe("Must be the team of the key");

export const listTemplatesQuery = z.object({ teamID });
export const pageTemplatesQuery = z.object({ teamID, ...page });
export const pageBuildsQuery = z.object(page);

export const updateTemplate = z.object({ public: z.boolean().nullish().describe("Whether other teams can use it") });
export const updatedTemplate = z.object({ names });

export const templateAlias = z.object({ templateID: templateId, public: z.boolean() });

const tags = z.array(z.string().max(TEMPLATE_TAG_MAX_CHARS)).min(1).max(TEMPLATE_TAGS_MAX);
const reference = z.string().max(TEMPLATE_REFERENCE_MAX_CHARS);

export const assignTags = z.object({
  target: reference.describe("[namespace/]alias or id, with the :tag of the build; default if there is none"),
  tags: tags.describe("Tags for that build"),
});
export const assignedTags = z.object({ tags: z.array(z.string()), buildID: z.uuid() });
export const removeTags = z.object({ name: reference.describe("[namespace/]alias or id, without a tag"), tags });
export const templateTag = z.object({ tag: z.string(), buildID: z.uuid(), createdAt: dateTime });

export type Template = z.infer<typeof template>;
export type TemplateWithBuilds = z.infer<typeof templateWithBuilds>;
export type TemplateTag = z.infer<typeof templateTag>;
export type PageTemplatesQuery = z.infer<typeof pageTemplatesQuery>;
export type PageBuildsQuery = z.infer<typeof pageBuildsQuery>;
