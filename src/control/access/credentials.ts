/**
 * API keys and access tokens as text: a prefix and hex. The store keeps the SHA-256 of the bytes that the hex encodes.
 * Secrets are compared in constant time.
 */
import { timingSafeEqual } from "node:crypto";
import { sha256 } from "../../base/sha256.ts";
import { SECRET_HEX_CHARS } from "../../contract/management/identifiers.ts";
import type { Mask } from "../../store/keys.ts";

/** The hash to look up, or undefined when the part after the prefix is not the right number of hex characters. */
export function hashOf(secret: string, prefix: string): string | undefined {
  const hex = secret.slice(prefix.length);
  if (hex.length !== SECRET_HEX_CHARS || !/^[0-9a-f]+$/i.test(hex)) return undefined;
  return sha256(Uint8Array.fromHex(hex));
}

/** Takes equally long wherever they differ. */
export function isSame(given: string, secret: string): boolean {
  return timingSafeEqual(digest(given), digest(secret));
}

export function digest(text: string): Uint8Array {
  return new Bun.CryptoHasher("sha256").update(text).digest();
}

export function maskOf(secret: string, prefix: string): Mask {
  const value = secret.slice(prefix.length);
  return { maskPrefix: value.slice(0, 2), maskSuffix: value.slice(-4), valueLength: value.length };
}
