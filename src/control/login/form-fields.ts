/** Reads the forms of the login pages. */
import type { Clock } from "../../base/clock.ts";
import { readForm } from "../http/request-body.ts";

const FORM_MAX_BYTES = 16 * 1024;

/** The fields of a form of the login, whose bytes count for no team. */
export function fieldsOf(request: Request, clock: Clock): Promise<URLSearchParams> {
  return readForm(request, { maxBytes: FORM_MAX_BYTES, clock, take: () => undefined });
}
