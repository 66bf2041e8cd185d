/** Writes certificates as a trust store of Java (JKS), which every version of Java reads without a password. */
const MAGIC = 0xfeedfeed;
const VERSION = 2;
const TRUSTED_CERTIFICATE = 2;
/** The format ends with a digest of this password, this phrase and the content. */
const PASSWORD = "changeit";
const PHRASE = "Mighty Aphrodite";
/** Java shows it and uses it for nothing. */
const ADDED_AT_MS = 0n;

/** Each certificate is in DER. */
export function javaTrustStore(certificates: readonly Buffer[]): Buffer {
  const entries = certificates.flatMap((certificate, at) => [
    uint32(TRUSTED_CERTIFICATE),
    text(`certificate-${at + 1}`),
    uint64(ADDED_AT_MS),
    text("X.509"),
    uint32(certificate.length),
    certificate,
  ]);
  const content = Buffer.concat([uint32(MAGIC), uint32(VERSION), uint32(certificates.length), ...entries]);
  const digest = new Bun.CryptoHasher("sha1");
  digest.update(Buffer.from(PASSWORD, "utf16le").swap16()).update(PHRASE).update(content);
  return Buffer.concat([content, digest.digest()]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function uint64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(value);
  return bytes;
}

/** ASCII only. */
function text(value: string): Buffer {
  return Buffer.concat([Buffer.from([value.length >> 8, value.length & 255]), Buffer.from(value, "latin1")]);
}
