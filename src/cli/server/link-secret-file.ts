/** The file with the secret that signs links to uploads and logins. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { Fault } from "../../contract/fault.ts";
import type { DataFolder } from "../../system/data-folder.ts";

const LINK_SECRET_BYTES = 32;

/** Created at the first start, so that upload links survive a restart. */
export function openLinkSecret(data: Pick<DataFolder, "linkSecretFile">): Uint8Array {
  if (!existsSync(data.linkSecretFile)) {
    writeFileSync(data.linkSecretFile, crypto.getRandomValues(new Uint8Array(LINK_SECRET_BYTES)), { mode: 0o600 });
  }
  const secret = readFileSync(data.linkSecretFile);
  if (secret.length === LINK_SECRET_BYTES) return secret;
  throw new Fault(
    500,
    `${data.linkSecretFile} is damaged. FIX: remove it; links to uploads of this hour, and logins, end with it`,
  );
}
