/** The SHA-256 of a text or bytes, in hex. */
export function sha256(content: string | Uint8Array): string {
  return new Bun.CryptoHasher("sha256").update(content).digest("hex");
}
