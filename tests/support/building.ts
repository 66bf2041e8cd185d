/** Runs builds on a test's machine and keeps their logs. */
import type {
  BuildLogEntry,
  BuildOutcome,
  BuildRequest,
  BuildStep,
  HostEvent,
} from "../../src/contract/internal/host.ts";
import { BASE_TEMPLATE } from "../../src/contract/management/base-template.ts";
import type { Machine } from "../../src/host/machine.ts";
import { BASE_IMAGE } from "../../src/setup/base-image.ts";
import { shell } from "./inside.ts";
import type { MachineOfFile } from "./machine-of-file.ts";

const { id: templateId, ...size } = BASE_TEMPLATE;
export const base = { ...size, templateId, image: BASE_IMAGE };

const fromBase: BuildRequest["from"] = { kind: "template", from: base, checkpoint: null, envVars: {} };

interface Built {
  outcome: BuildOutcome;
  entries: BuildLogEntry[];
}

export type Ready = Extract<BuildOutcome, { isReady: true }>;

export function requireReady(outcome: BuildOutcome): Ready {
  if (!outcome.isReady) throw new Error(`${outcome.step}: ${outcome.message}`);
  return outcome;
}

/** Does something with a sandbox of a build. */
export async function withSandboxOf<Result>(
  { machine }: Pick<MachineOfFile, "machine">,
  outcome: BuildOutcome,
  use: (id: string) => Promise<Result>,
): Promise<Result> {
  const { image, defaultUser, defaultWorkdir, envVars } = requireReady(outcome);
  const kind = { ...base, image, defaultUser, defaultWorkdir };
  const { id } = await machine.create({ kind, envVars, accessTokens: [], egress: "closed" });
  try {
    return await use(id);
  } finally {
    await machine.destroy(id);
  }
}

/** The output of a shell line in a sandbox of a build. */
export async function shellOf(here: MachineOfFile, outcome: BuildOutcome, line: string): Promise<string> {
  return await withSandboxOf(here, outcome, (id) => shell(here.data, id, line));
}

/** A request with these steps on the base template. */
export function requestOf(steps: readonly BuildStep[], changes: Partial<BuildRequest> = {}): BuildRequest {
  const { cpuCount, memoryMB, diskSizeMB } = base;
  return {
    id: crypto.randomUUID(),
    templateId: "tpl",
    owner: "team",
    from: fromBase,
    steps,
    start: null,
    force: false,
    cpuCount,
    memoryMB,
    diskSizeMB,
    ...changes,
  };
}

export async function build(
  machine: Machine,
  request: BuildRequest,
  onLine: (message: string) => void = () => undefined,
): Promise<Built> {
  const entries: BuildLogEntry[] = [];
  machine.events((event: HostEvent) => {
    if (event.kind !== "build-log" || event.id !== request.id) return;
    entries.push(...event.entries);
    for (const { message } of event.entries) onLine(message);
  });
  return { outcome: await machine.build(request), entries };
}

export const run = (command: string, user: string | null = null): BuildStep => ({
  type: "run",
  command,
  user,
  force: false,
});
export const env = (...variables: [string, string][]): BuildStep => ({ type: "env", variables, force: false });
export const workdir = (path: string): BuildStep => ({ type: "workdir", path, force: false });
export const user = (name: string, sudo = false): BuildStep => ({ type: "user", name, sudo, force: false });
/** `upload` is below the folder of uploads. */
export const copy = (
  upload: string,
  source: string,
  target: string,
  { owner = null, mode = null }: { owner?: string | null; mode?: string | null } = {},
): BuildStep => ({ type: "copy", files: `files/${upload}`, source, target, owner, mode, force: false });
