/** Builds of templates: request, upload, start and status. */
import { z } from "zod";
import { LOG_LEVELS } from "../sandbox-log.ts";
import { dateTime, templateId } from "./identifiers.ts";
import {
  CPU_COUNT_MAX,
  CPU_COUNT_MIN,
  DISK_SIZE_DEFAULT_MB,
  MEMORY_MAX_MB,
  MEMORY_MIN_MB,
  PAGE_MAX,
  TEMPLATE_NAME_MAX_CHARS,
  TEMPLATE_REFERENCE_MAX_CHARS,
  TEMPLATE_TAGS_MAX,
} from "./limits.ts";
import { template } from "./template.ts";

const buildId = z.uuid();
const name = z.string().max(TEMPLATE_NAME_MAX_CHARS);
const size = {
  cpuCount: z.int32().min(CPU_COUNT_MIN).max(CPU_COUNT_MAX).nullish(),
  memoryMB: z.int32().min(MEMORY_MIN_MB).max(MEMORY_MAX_MB).nullish(),
};
const teamID = z.string().nullish();

export const requestBuildV3 = z.object({
  name: name.nullish().describe("[namespace/]alias[:tag]; the tag counts as one of tags"),
  tags: z.array(z.string().max(TEMPLATE_NAME_MAX_CHARS)).max(TEMPLATE_TAGS_MAX).nullish(),
  alias: name.nullish().describe("Deprecated: use name"),
  teamID: teamID.describe("Deprecated: the key determines the team"),
  ...size,
  minFreeDiskMb: z.int32().min(0).max(DISK_SIZE_DEFAULT_MB).nullish().describe("The same for every sandbox"),
});

export const requestBuildV2 = z.object({ alias: name, teamID, ...size });

const command = z.string().nullish();

export const buildDockerfile = z.object({
  dockerfile: z.string(),
  alias: name.nullish(),
  teamID: teamID.describe("The user's default team when absent"),
  startCmd: command.describe("Replaces the Dockerfile's CMD and ENTRYPOINT"),
  readyCmd: command,
  ...size,
});

export const requestedBuild = z.object({
  templateID: templateId,
  buildID: buildId.describe("Of the requested build"),
  public: z.boolean(),
  names: z.array(z.string()),
  tags: z.array(z.string()),
  aliases: z.array(z.string()),
});

const buildStep = z.object({
  type: z.string().describe("COPY, ADD, RUN, ENV, ARG, WORKDIR or USER"),
  args: z.array(z.string()).default([]),
  filesHash: z
    .string()
    .regex(/^[0-9a-f]{64}$/, "must be 64 characters of 0-9 and a-f")
    .nullish()
    .describe("Of the uploaded files, for COPY and ADD"),
  force: z.boolean().nullish().describe("True: do not use a layer of an earlier build"),
});

const imageRegistry = z.discriminatedUnion("type", [
  z.object({ type: z.literal("registry"), username: z.string(), password: z.string() }),
  z.object({
    type: z.literal("aws"),
    awsAccessKeyId: z.string(),
    awsSecretAccessKey: z.string(),
    awsRegion: z.string(),
  }),
  z.object({ type: z.literal("gcp"), serviceAccountJson: z.string() }),
]);

export const startBuild = z.object({
  fromImage: z
    .string()
    .max(TEMPLATE_REFERENCE_MAX_CHARS * 2)
    .nullish(),
  fromTemplate: z.string().max(TEMPLATE_REFERENCE_MAX_CHARS).nullish().describe("[namespace/]alias[:tag], or an id"),
  fromImageRegistry: imageRegistry.nullish().describe("Credentials for the image's registry"),
  force: z.boolean().nullish().describe("True: do not use layers of earlier builds"),
  steps: z.array(buildStep).nullish(),
  startCmd: command.describe("Runs in every sandbox of the template, from its start on"),
  readyCmd: command.describe("Command that succeeds once the start command is ready"),
});

export const uploadLink = z.object({
  present: z.boolean().describe("The team has uploaded these files before"),
  url: z.string().describe("PUT a tar archive there, gzipped or not; no other authentication is needed"),
});

export const uploadQuery = z.object({
  expires: z.int().min(0).default(0).describe("Seconds since 1970"),
  bytes: z.int().min(0).default(0).describe("Maximum size of the archive"),
  signature: z.string().max(64).default("").describe("Total for the link"),
});

const logLevel = z.enum(LOG_LEVELS);

const buildLogEntry = z.object({
  timestamp: dateTime,
  message: z.string(),
  level: logLevel,
  step: z.string().optional().describe("base, finalize, or the number of the step, from 1"),
});

export const buildStatusQuery = z.object({
  logsOffset: z.int32().min(0).default(0).describe("Number of entries to skip"),
  limit: z.int32().min(0).max(PAGE_MAX).default(PAGE_MAX),
  level: logLevel.optional().describe("Minimum level"),
});

export const buildInfo = z.object({
  templateID: templateId,
  buildID: buildId,
  status: z.enum(["waiting", "building", "ready", "error"]),
  logs: z.array(z.string()).describe("Deprecated: only for builds from a Dockerfile"),
  logEntries: z.array(buildLogEntry),
  reason: z
    .object({ message: z.string(), step: z.string().optional(), logEntries: z.array(buildLogEntry) })
    .optional()
    .describe("Why it failed"),
});

export const buildLogsQuery = z.object({
  cursor: z.int().min(0).optional().describe("Milliseconds since 1970, inclusive"),
  limit: z.int32().min(0).max(PAGE_MAX).default(PAGE_MAX),
  direction: z.enum(["forward", "backward"]).default("forward").describe("backward: newest first"),
  level: logLevel.optional().describe("Minimum level"),
  source: z.enum(["temporary", "persistent"]).optional().describe("Accepted; there is only one log"),
});

export const buildLogs = z.object({ logs: z.array(buildLogEntry) });

/** The response of the v1 and v2 routes. `buildID` is the requested build. */
export const acceptedTemplate = template.extend({
  buildID: buildId,
  buildStatus: z.literal("uploaded").describe("Accepted"),
});

export type StartBuild = z.infer<typeof startBuild>;
export type RequestedStep = z.infer<typeof buildStep>;
export type ImageRegistry = z.infer<typeof imageRegistry>;
export type BuildInfo = z.infer<typeof buildInfo>;
export type BuildLogEntryView = z.infer<typeof buildLogEntry>;
export type AcceptedTemplate = z.infer<typeof acceptedTemplate>;
