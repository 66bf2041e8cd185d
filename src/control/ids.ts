/** Generates unguessable ids and secrets. The source of randomness is injected, so that a test can replay it. */
import { ID_CHARS, ID_LETTERS } from "../contract/ids.ts";
import {
  ACCESS_TOKEN_PREFIX,
  ADMIN_TOKEN_PREFIX,
  API_KEY_PREFIX,
  SECRET_HEX_CHARS,
} from "../contract/management/identifiers.ts";

export interface Ids {
  /** Version 4: teams, users, keys, builds, runs. */
  uuid(): string;
  /** 20 of [a-z0-9]. */
  templateId(): string;
  /** For the runtime or the ports of one sandbox: 64 hex characters. */
  sandboxToken(): string;
  apiKey(): string;
  accessToken(): string;
  adminToken(): string;
  /** 16 hex characters that tie a response to its log lines. */
  requestId(): string;
}

export type FillRandom = (bytes: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer>;

export function createIds(fill: FillRandom = (bytes) => crypto.getRandomValues(bytes)): Ids {
  const bytes = (count: number) => fill(new Uint8Array(count));
  const hex = (chars: number) => bytes(chars / 2).toHex();
  return {
    uuid() {
      const raw = bytes(16);
      raw[6] = ((raw[6] ?? 0) & 0x0f) | 0x40;
      raw[8] = ((raw[8] ?? 0) & 0x3f) | 0x80;
      return raw.toHex().replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
    },
    templateId() {
      // Numbers of four bytes each, so that no character is noticeably likelier than another.
      const numbers = new Uint32Array(bytes(4 * ID_CHARS).buffer);
      return [...numbers].map((number) => ID_LETTERS[number % ID_LETTERS.length]).join("");
    },
    sandboxToken: () => hex(64),
    apiKey: () => API_KEY_PREFIX + hex(SECRET_HEX_CHARS),
    accessToken: () => ACCESS_TOKEN_PREFIX + hex(SECRET_HEX_CHARS),
    adminToken: () => ADMIN_TOKEN_PREFIX + hex(SECRET_HEX_CHARS),
    requestId: () => hex(16),
  };
}
