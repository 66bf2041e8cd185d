/**
 * Signature of an upload link. The link opens one upload for a while; a secret of the server signs everything it
 * allows.
 */
import { createHmac, timingSafeEqual } from "node:crypto";

export interface UploadPermit {
  teamId: string;
  templateId: string;
  hash: string;
  maxBytes: number;
  /** Seconds since 1970. */
  expires: number;
}

export function signatureOf(permit: UploadPermit, secret: Uint8Array): string {
  const { teamId, templateId, hash, maxBytes, expires } = permit;
  const text = ["upload", teamId, templateId, hash, maxBytes, expires].join("\n");
  return createHmac("sha256", secret).update(text).digest("hex");
}

export function isSigned(permit: UploadPermit, signature: string, secret: Uint8Array): boolean {
  const right = Buffer.from(signatureOf(permit, secret));
  const given = Buffer.from(signature);
  return given.length === right.length && timingSafeEqual(given, right);
}
