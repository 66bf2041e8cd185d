/** Signed file links: what is signed, and how. */
export type FileOperation = "read" | "write";

/** The values of the link itself. The signature covers them, not what they resolve to. */
export interface SignedLink {
  path: string;
  username: string;
  operation: FileOperation;
  /** Unix seconds; undefined: the link does not expire. */
  expiration: number | undefined;
  signature: string;
}

/** The signature of a link made with `token`. */
export function fileSignature(link: Omit<SignedLink, "signature">, token: string): string {
  const parts = [link.path, link.operation, link.username, token];
  if (link.expiration !== undefined) parts.push(String(link.expiration));
  const digest = new Bun.CryptoHasher("sha256").update(parts.join(":")).digest("base64");
  return `v1_${digest.replace(/=+$/, "")}`;
}
