/** Journal entries for file operations of clients: path, user and outcome, never contents. */
import { errorMessage } from "../../base/error-message.ts";
import type { Fields, Journal } from "./journal.ts";

/** Runs `work` and notes its outcome; `outcome` adds fields that only the result provides. */
export async function notingFiles<T>(
  journal: Journal,
  operation: string,
  fields: Fields,
  work: () => Promise<T>,
  outcome: (result: T) => Fields = () => ({}),
): Promise<T> {
  const startedAt = performance.now();
  const facts = () => ({
    event_type: "file_processing",
    operation,
    ...fields,
    duration_ms: Math.round(performance.now() - startedAt),
  });
  try {
    const result = await work();
    journal.note("filesystem", "info", `${operation} done`, { ...facts(), ...outcome(result) });
    return result;
  } catch (thrown) {
    journal.note("filesystem", "warn", `${operation} failed`, { ...facts(), error: errorMessage(thrown) });
    throw thrown;
  }
}
