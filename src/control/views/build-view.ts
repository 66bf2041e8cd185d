/** Converts builds into their API responses. */
import type { BuildLogEntry } from "../../contract/internal/host.ts";
import type { AcceptedTemplate, BuildInfo, BuildLogEntryView } from "../../contract/management/template-build.ts";
import { RUNTIME_VERSION } from "../../contract/runtime/version.ts";
import type { Build } from "../../store/builds.ts";
import type { ListedTemplate } from "../../store/listed-templates.ts";
import { asTemplate } from "./template-view.ts";

const BAD: ReadonlySet<string> = new Set(["warn", "error"]);

export function asEntry({ at, level, message, step }: BuildLogEntry): BuildLogEntryView {
  return { timestamp: new Date(at).toISOString(), message, level, ...(step === null ? {} : { step }) };
}

/** `entries` are those that the client asked for. */
export function asInfo(build: Build, entries: readonly BuildLogEntry[]): BuildInfo {
  const { id, templateId, status, reason, generation } = build;
  const logEntries = entries.map(asEntry);
  const info: BuildInfo = {
    templateID: templateId,
    buildID: id,
    status,
    logs: generation === 1 ? entries.map(asLine) : [],
    logEntries,
  };
  if (status !== "error" || reason === null) return info;
  const ofStep = logEntries.filter(({ step, level }) => step !== undefined && step === reason.step && BAD.has(level));
  const step = reason.step === null ? {} : { step: reason.step };
  return { ...info, reason: { message: reason.message, ...step, logEntries: ofStep } };
}

export function asAccepted(listed: ListedTemplate, build: Build): AcceptedTemplate {
  const { id: buildID, cpuCount, memoryMB, diskSizeMB } = build;
  const accepted = { buildID, cpuCount, memoryMB, diskSizeMB, envdVersion: RUNTIME_VERSION };
  return { ...asTemplate(listed), ...accepted, buildStatus: "uploaded" };
}

function asLine({ at, message }: BuildLogEntry): string {
  return `[${new Date(at).toISOString()}] ${message}\n`;
}
