/** Administration of the server: its teams, users, and this machine as the only node. */
import { z } from "zod";
import { createdApiKey, namedKey } from "./api-key.ts";
import { dateTime, page } from "./identifiers.ts";
import { AUDIT_TEXT_MAX_CHARS, TEAMS_OF_REQUEST_MAX } from "./limits.ts";
import { teamName, teamSlug, userEmail } from "./team.ts";

export const adminTeam = z.object({
  teamID: z.uuid(),
  slug: z.string(),
  name: z.string(),
  createdAt: dateTime,
  state: z.enum(["active", "deleting"]),
  apiKeyCount: z.int(),
  members: z.array(z.object({ userID: z.uuid(), email: z.string() })),
});
export type AdminTeam = z.infer<typeof adminTeam>;

export const newTeam = z.object({ slug: teamSlug, name: teamName.optional().describe("Default: the slug") });
export const renamedTeam = z.object({ name: teamName });

export const adminUser = z.object({
  userID: z.uuid(),
  email: z.string(),
  createdAt: dateTime,
  teams: z.array(z.object({ teamID: z.uuid(), slug: z.string(), isDefault: z.boolean() })),
});
export type AdminUser = z.infer<typeof adminUser>;

export const newUser = z.object({
  email: userEmail,
  teamIDs: z.array(z.uuid()).max(TEAMS_OF_REQUEST_MAX).optional().describe("The first becomes the default"),
});

export const newMember = z.object({ userID: z.uuid() });
export const changedMember = z.object({ isDefault: z.literal(true).describe("The team becomes the user's default") });

/** For a user that is removed from a team, or deleted. */
export const removalQuery = z.object({
  revokeKeys: z.enum(["true", "false"]).default("false").describe("Also revoke the API keys that the user made"),
});
export const keyCounts = z.object({ revokedKeys: z.int(), validKeys: z.int() });

export const adminApiKey = namedKey;
export const adminCreatedApiKey = createdApiKey;

export const killedSandboxes = z.object({ killedCount: z.int(), failedCount: z.int() });
export const cancelledBuilds = z.object({ cancelledCount: z.int(), failedCount: z.int() });
export const runningCounts = z.record(z.string(), z.int()).describe("By team id");
export const adminSandbox = z.object({
  sandboxID: z.string(),
  teamID: z.uuid(),
  state: z.enum(["running", "paused", "killed"]),
});

const disk = z.object({
  mountPoint: z.string(),
  device: z.string().describe("Empty: it is not read"),
  filesystemType: z.string().describe("Empty: it is not read"),
  usedBytes: z.int(),
  totalBytes: z.int(),
});

/** What the machine itself says. */
const machineReadings = z.object({
  version: z.string(),
  metrics: z.object({
    cpuPercent: z.int(),
    cpuCount: z.int(),
    memoryUsedBytes: z.int(),
    memoryTotalBytes: z.int(),
    disks: z.array(disk),
  }),
  machineInfo: z.object({
    cpuFamily: z.string(),
    cpuModel: z.string(),
    cpuModelName: z.string(),
    cpuArchitecture: z.string(),
  }),
});
export type MachineReadings = z.infer<typeof machineReadings>;

const nodeStatus = z.enum(["ready", "draining", "connecting", "unhealthy", "standby", "shutting_down"]);

export const node = z.object({
  id: z.string(),
  serviceInstanceID: z.string().describe("New at each start of the server"),
  clusterID: z.uuid(),
  status: nodeStatus,
  statusChangedAt: dateTime,
  sandboxCount: z.int().describe("In memory: running, or in transition"),
  sandboxStartingCount: z.int(),
  createSuccesses: z.int().describe("Since the start of the server"),
  createFails: z.int(),
  version: z.string(),
  commit: z.string(),
  metrics: machineReadings.shape.metrics.extend({
    allocatedCPU: z.int().describe("Of all sandboxes in memory"),
    allocatedMemoryBytes: z.int(),
    hugePagesTotal: z.int(),
    hugePagesUsed: z.int(),
    hugePagesReserved: z.int(),
    hugePageSizeBytes: z.int(),
  }),
  machineInfo: machineReadings.shape.machineInfo,
});
export type Node = z.infer<typeof node>;

const cluster = { clusterID: z.uuid().optional().describe("Only of the node's own cluster") };
export const nodeQuery = z.object(cluster);
/** The status is all that can be changed; further fields of clients are ignored. */
export const changedNode = z.object({ status: nodeStatus, ...cluster });

const filter = z.string().max(AUDIT_TEXT_MAX_CHARS).optional();

export const auditQuery = z.object({
  teamID: z.uuid().optional(),
  actorID: filter.describe("Id of an API key, a user or an admin token"),
  action: filter.describe("Such as POST /sandboxes"),
  object: filter,
  start: dateTime.optional(),
  end: dateTime.optional(),
  ...page,
});

export const auditView = z.object({
  id: z.uuid(),
  timestamp: dateTime,
  actor: z.object({ kind: z.enum(["key", "user", "admin", "root", "server", "stranger"]), id: z.string().optional() }),
  teamID: z.string().optional(),
  action: z.string(),
  object: z.string().optional(),
  clientAddress: z.string().optional(),
  status: z.int().describe("Of the response"),
  requestID: z.string().optional(),
});
export type AuditView = z.infer<typeof auditView>;
