/** Snapshots: templates made from a running sandbox. */
import { z } from "zod";
import { page, sandboxId } from "./identifiers.ts";
import { TEMPLATE_NAME_MAX_CHARS, TEMPLATE_REFERENCE_MAX_CHARS } from "./limits.ts";

export const createSnapshot = z.object({
  name: z
    .string()
    .min(1)
    .max(TEMPLATE_NAME_MAX_CHARS)
    .nullish()
    .describe("[namespace/]alias[:tag]; a snapshot without a name is known by its id"),
  memory: z.boolean().nullish().describe("False: keep only files; sandboxes created from it boot"),
});

export const snapshot = z.object({
  snapshotID: z.string().describe("Use it as templateID; [namespace/]alias:tag, or id:tag when it has no name"),
  names: z.array(z.string()).describe("namespace/alias"),
});

export const listSnapshotsQuery = z.object({
  sandboxID: sandboxId.optional().describe("Only snapshots of this sandbox"),
  name: z
    .string()
    .max(TEMPLATE_REFERENCE_MAX_CHARS)
    .optional()
    .describe("[namespace/]alias or id, optionally with :tag"),
  ...page,
});

export type Snapshot = z.infer<typeof snapshot>;
export type ListSnapshotsQuery = z.infer<typeof listSnapshotsQuery>;
