/**
 * Parses one line of a guest's journal strictly, because root in a sandbox can replace the guest. Anything that is not
 * exactly a guest's line is undefined. The guest's timestamp is used only where it is plausible.
 */
import { ACTIVITY_KEPT_MS } from "../../contract/limits.ts";
import {
  JOURNAL_FIELD_NAME_MAX_CHARS,
  JOURNAL_FIELDS_MAX,
  JOURNAL_TEXT_MAX_CHARS,
} from "../../contract/runtime/limits.ts";
import { LOG_LEVELS, type LogLevel, type LogLine } from "../../contract/sandbox-log.ts";
import { jsonObject } from "./guest-request.ts";

type ReadLine =
  | { kind: "greeting"; journal: string }
  | { kind: "entry"; seq: number; line: LogLine }
  | { kind: "gap"; seq: number; dropped: number };

/** Lines about a sandbox's life cycle have other loggers, so a guest cannot forge them. */
const GUEST_LOGGERS = ["process", "filesystem", "runtime"];
const JOURNAL_NAME = /^[0-9a-f-]{36}$/;

export function readJournalLine(text: string, now: number): ReadLine | undefined {
  const given = jsonObject(text);
  if (given === undefined) return undefined;
  if (typeof given.journal === "string") {
    return JOURNAL_NAME.test(given.journal) ? { kind: "greeting", journal: given.journal } : undefined;
  }
  const { seq } = given;
  if (!isCount(seq)) return undefined;
  if ("dropped" in given) {
    return isCount(given.dropped) && given.dropped <= seq ? { kind: "gap", seq, dropped: given.dropped } : undefined;
  }
  const { level, logger, message } = given;
  const fields = textFields(given.fields);
  if (!isLevel(level) || !isText(message) || fields === undefined) return undefined;
  if (typeof logger !== "string" || !GUEST_LOGGERS.includes(logger)) return undefined;
  return {
    kind: "entry",
    seq,
    line: { at: possibleTime(given.at, now), level, message, fields: { ...fields, logger } },
  };
}

/** A timestamp in the future, or older than the retention, is replaced by the time of arrival. */
function possibleTime(at: unknown, now: number): number {
  const isPossible = typeof at === "number" && Number.isSafeInteger(at) && at > now - ACTIVITY_KEPT_MS && at <= now;
  return isPossible ? at : now;
}

function textFields(given: unknown): Record<string, string> | undefined {
  if (typeof given !== "object" || given === null || Array.isArray(given)) return undefined;
  const entries = Object.entries(given);
  const isFit =
    entries.length <= JOURNAL_FIELDS_MAX &&
    entries.every(([name, value]) => name.length <= JOURNAL_FIELD_NAME_MAX_CHARS && isText(value));
  return isFit ? Object.fromEntries(entries) : undefined;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.length <= JOURNAL_TEXT_MAX_CHARS;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0;
}

function isLevel(value: unknown): value is LogLevel {
  return LOG_LEVELS.some((level) => level === value);
}
