/** Volumes and their content on the management interface. */
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
  sizeMB: z.int32().min(1).nullish().describe("The most that it holds; what the server gives by default when absent"),
});

export const listedVolume = z.object({ volumeID: z.uuid(), name: z.string() });

export const volumeAndToken = listedVolume.extend({
  token: z.string().describe("Opens the volume's content, for an hour"),
});

export const volumeEntry = z.object({
  name: z.string(),
  type: z.enum(["unknown", "file", "directory", "symlink"]),
  path: z.string().describe("As seen from the volume"),
  size: z.int().min(0),
  mode: z.int().min(0).describe("Permission bits"),
  uid: z.int().min(0),
  gid: z.int().min(0),
  atime: z.iso.datetime(),
  mtime: z.iso.datetime(),
  ctime: z.iso.datetime(),
  target: z.string().optional().describe("Where a symlink leads"),
});

const path = z
  .string()
  .min(1)
  .max(VOLUME_PATH_MAX_CHARS)
  .refine((given) => !given.includes(NUL), "must not hold NUL")
  .describe("As seen from the volume; one without a slash at its beginning is taken as if it had one");

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
    .describe("How many levels of folders are listed"),
});

export const makeEntryQuery = z.object({
  path,
  uid: id.optional(),
  gid: id.optional(),
  mode: mode.optional(),
  force: z
    .enum(["true", "false"])
    .optional()
    .describe("Makes missing parents; a file takes the place of one that is there, a folder may be there already"),
});

export const changeEntry = z.object({ uid: id.nullish(), gid: id.nullish(), mode: mode.nullish() });
