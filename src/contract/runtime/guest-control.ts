/**
 * The control channel from the host to the guest: plain HTTP on the runtime port under CONTROL_PREFIX. It requires a
 * secret that only the host and the guest hold, and the edge rejects the prefix in any spelling. The secret is in a
 * file that the host mounts into the sandbox. The guest reads it for each request, so a new secret invalidates the old
 * one: every restore of a checkpoint begins with its own secret, and no memory image holds one.
 *
 * A guest of the ready pool gets its settings without a request: the host writes them after the line with the secret.
 * Until it has an id, the guest reads them before it responds to anything, and keeps them. Once the guest has
 * responded, the host leaves only the secret in the file.
 *
 *   POST {prefix}configure  GuestSettings   → 204   replaces all settings; AUTHORITY_READ_HEADER if the guest reads
 *                                             `trustedAuthority`, which guests from before header rules ignore
 *   POST {prefix}forward    ForwardRequest  → 200 ForwardAnswer, 404 when nothing listens on that port of a loopback
 *                                             address
 *   POST {prefix}renew                      → 200, a body that ends with the guest; a new guest without tokens and
 *                                             variables replaces it, and serves nothing until it is configured
 *   POST {prefix}collect                    → 204   after a garbage collection
 *   GET  {prefix}ping                       → 204
 *   GET  {prefix}journal    ?journal&after  → 200, one message of the guest's journal per line while the host listens;
 *                                             SETTINGS_LOST_STATUS from a restarted guest with damaged settings
 */
import { GUEST_MOUNT } from "./guest-programs.ts";

export const CONTROL_PREFIX = "/control/";
/** The guest must be configured again before it serves requests. */
export const SETTINGS_LOST_STATUS = 409;
export const AUTHORITY_READ_HEADER = "x-sandlot-authority-read";
export const CONTROL_SECRET_HEADER = "x-sandlot-control";
/** The secret, followed by settings if there are any; readable by root only. */
export const CONTROL_SECRET_FILE = `${GUEST_MOUNT}/secret`;

export interface GuestSettings {
  sandboxId: string;
  templateId: string;
  /** Variables of every process in the sandbox. */
  envVars: Record<string, string>;
  /** Access tokens of the runtime; empty: no token required. The newest is last. */
  accessTokens: string[];
  defaultUser: string;
  /** Empty: the user's home. */
  defaultWorkdir: string;
  /** Certificate in PEM that programs must trust: the sandbox has header rules. Absent: none. */
  trustedAuthority?: string;
}

/** Settings of a guest that has not been configured yet. */
export const UNASSIGNED_SETTINGS: GuestSettings = {
  sandboxId: "",
  templateId: "",
  envVars: {},
  accessTokens: [],
  defaultUser: "root",
  defaultWorkdir: "",
};

export interface ForwardRequest {
  port: number;
}

/** A port on the sandbox's network address that forwards to the requested port on a loopback address. */
export interface ForwardAnswer {
  port: number;
}

/**
 * Messages of the journal's stream. The first names the journal: a restarted guest has a new one, whose numbers start
 * again. A host that names the journal and number it knows gets the later entries; any other gets all that are kept.
 * New entries displace the oldest, and a gap says how many. A new listener replaces the previous one.
 */
export type JournalMessage = JournalGreeting | JournalEntry | JournalGap;

export interface JournalGreeting {
  journal: string;
}

export interface JournalEntry {
  /** Rises by one per entry. */
  seq: number;
  /** Milliseconds since 1970, by the sandbox's clock. */
  at: number;
  level: "debug" | "info" | "warn" | "error";
  logger: string;
  message: string;
  fields: Record<string, string>;
}

export interface JournalGap {
  /** The newest missing entry. */
  seq: number;
  dropped: number;
}
