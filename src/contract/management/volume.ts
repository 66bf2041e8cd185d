/** Volumes and their content on the management API. */
import { z } from "zod";
import {
  VOLUME_ID_MAX,
  VOLUME_LIST_DEPTH_DEFAULT,
  VOLUME_LIST_DEPTH_MAX,
  VOLUME_MODE_MAX,
  VOLUME_NAME_MAX_CHARS,
  VOLUME_PATH_MAX_CHARS,
} from "./limits.ts";

const NUL = "\u0000";

const name = z
  .string()
  .max(VOLUME_NAME_MAX_CHARS)
  .regex(/^[a-zA-Z0-9_-]+$/, "must consist of a-z, A-Z, 0-9, _ and -");

export const createVolume = z.object({
  name: name.describe("Unique among the team's volumes"),
  sizeMB: z.int32().min(1).nullish().describe("Maximum size; default: set by the server"),
});

export const listedVolume = z.object({ volumeID: z.uuid(), name: z.string() });

export const volumeAndToken = listedVolume.extend({
  token: z.string().describe("Token for the volume's content, valid for an hour"),
});

export const volumeEntry = z.object({
  name: z.string(),
  type: z.enum(["unknown", "file", "directory", "symlink"]),
  path: z.string().describe("Path within the volume"),
  size: z.int().min(0),
  mode: z.int().min(0).describe("Permission bits"),
  uid: z.int().min(0),
  gid: z.int().min(0),
  atime: z.iso.datetime(),
  mtime: z.iso.datetime(),
  ctime: z.iso.datetime(),
  target: z.string().optional().describe("Target of a symlink"),
});

const path = z
  .string()
  .min(1)
  .max(VOLUME_PATH_MAX_CHARS)
  .refine((given) => !given.includes(NUL), "must not hold NUL")
  .describe("Path within the volume; the leading slash is optional");

const id = z.int().min(0).max(VOLUME_ID_MAX);
const mode = z.int().min(0).max(VOLUME_MODE_MAX);

export const entryQuery = z.object({ path });

export const listFolderQuery = z.object({
  path,
  depth: z
    .int()
    .min(1)
    .max(VOLUME_LIST_DEPTH_MAX)
    .default(VOLUME_LIST_DEPTH_DEFAULT)
    .describe("Maximum directory depth of the list"),
});

export const makeEntryQuery = z.object({
  path,
  uid: id.optional(),
  gid: id.optional(),
  mode: mode.optional(),
  force: z
    .enum(["true", "false"])
    .optional()
    .describe("Creates missing parents; replaces an existing file, accepts an existing directory"),
});

export const changeEntry = z.object({ uid: id.nullish(), gid: id.nullish(), mode: mode.nullish() });
