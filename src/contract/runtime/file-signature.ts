/** Signed file links as they are on the wire: what is signed, and how. */
export type FileOperation = "read" | "write";

/** A link as it was given: the signature covers the values themselves, not what they resolve to. */
export interface SignedLink {
  path: string;
  username: string;
  operation: FileOperation;
  /** Unix seconds; undefined: the link has no end. */
  expiration: number | undefined;
  signature: string;
}

/** The signature that a link must carry to be opened by `token`. */
export function fileSignature(link: Omit<SignedLink, "signature">, token: string): string {
  const parts = [link.path, link.operation, link.username, token];
  if (link.expiration !== undefined) parts.push(String(link.expiration));
  const digest = new Bun.CryptoHasher("sha256").update(parts.join(":")).digest("base64");
  return `v1_${digest.replace(/=+$/, "")}`;
}
