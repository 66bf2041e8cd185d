/**
 * The control channel: what the host tells the guest. It is plain HTTP on the runtime port under CONTROL_PREFIX, opened
 * by a secret that only the host and the guest hold, and refused at the edge under any spelling. The secret is in a
 * file that the host shows to the guest, which reads it for each request: where the host puts another one there, the
 * one before is dead. So every restore of a checkpoint begins with a secret of its own, and no memory image holds one.
 *
 * A guest that is nobody's is made somebody's without a word: behind the line with the secret, the host writes its
 * settings. Until it has an id, the guest looks there before it answers anything, and keeps what it finds. When the
 * host has heard of it again, the secret is alone there.
 *
 *   POST {prefix}configure  GuestSettings   → 204   replaces all settings
 *   POST {prefix}forward    ForwardRequest  → 200 ForwardAnswer, 404 when nothing listens on that port of a loopback
 *                                             address
 *   POST {prefix}renew                      → 200, a body that ends with the guest; another one takes its place, which
 *                                             knows no token and no variable, and answers nobody until it is configured
 *   GET  {prefix}ping                       → 204
 *   GET  {prefix}journal    ?journal&after  → 200 JournalMessages, one in a line, for as long as the host listens;
 *                                             SETTINGS_LOST_STATUS from a guest that was started again and found its
 *                                             settings damaged
 */
import { GUEST_MOUNT } from "./guest-programs.ts";

export const CONTROL_PREFIX = "/control/";
/** The guest has to be configured again before it answers anybody. */
export const SETTINGS_LOST_STATUS = 409;
export const CONTROL_SECRET_HEADER = "x-sandlot-control";
/** Where the guest reads the secret, and behind it its settings if there are any; root alone may. */
export const CONTROL_SECRET_FILE = `${GUEST_MOUNT}/secret`;

export interface GuestSettings {
  sandboxId: string;
  templateId: string;
  /** Variables of every process in the sandbox. */
  envVars: Record<string, string>;
  /** Tokens that open the runtime; empty means that it is open to everybody. The newest is last. */
  accessTokens: string[];
  defaultUser: string;
  /** Empty: the user's home. */
  defaultWorkdir: string;
}

/** Of a guest that was told nothing yet. */
export const SETTINGS_OF_NOBODY: GuestSettings = {
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

/** A port on the sandbox's network address that carries bytes to the asked port on a loopback address. */
export interface ForwardAnswer {
  port: number;
}

/**
 * What the guest says on the journal's stream. It begins with a greeting that names the journal: a guest that was
 * started anew has a new one, whose numbers begin again. A host that names the journal it knows, and the number it has,
 * gets what came after; any other gets all that is kept. The oldest entries make way for new ones, and a gap says how
 * many did. A new listener takes the place of the one before.
 */
export type JournalMessage = JournalGreeting | JournalEntry | JournalGap;

export interface JournalGreeting {
  journal: string;
}

export interface JournalEntry {
  /** Rises by one from entry to entry. */
  seq: number;
  /** Milliseconds since 1970, by the sandbox's clock. */
  at: number;
  level: "debug" | "info" | "warn" | "error";
  logger: string;
  message: string;
  fields: Record<string, string>;
}

export interface JournalGap {
  /** The newest that is missing. */
  seq: number;
  dropped: number;
}
