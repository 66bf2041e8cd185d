/**
 * The control channel: what the host tells the guest. It is plain HTTP on the runtime port under CONTROL_PREFIX, opened by a
 * secret that only the host and the guest hold, and refused at the edge under any spelling.
 *
 *   POST {prefix}configure  GuestSettings   → 204   replaces all settings
 *   POST {prefix}forward    ForwardRequest  → 200 ForwardAnswer, 404 when nothing listens on that port on a loopback address
 *   GET  {prefix}ping                       → 204
 */
export const CONTROL_PREFIX = "/control/";
export const CONTROL_SECRET_HEADER = "x-sandlot-control";
/** The guest's environment variable that holds the secret. */
export const CONTROL_SECRET_ENV = "SANDLOT_CONTROL_SECRET";

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

export interface ForwardRequest {
  port: number;
}

/** A port on the sandbox's network address that carries bytes to the asked port on a loopback address. */
export interface ForwardAnswer {
  port: number;
}
