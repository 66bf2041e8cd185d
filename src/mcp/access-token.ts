/** The token that clients of the gateway send. The gateway keeps a digest and compares it in constant time. */
import { createHash, timingSafeEqual } from "node:crypto";
import { chmod, mkdir, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { Fault } from "../contract/fault.ts";
import { TOKEN_VARIABLE } from "./servers/run-as-user.ts";

const TOKEN_MAX_BYTES = 4096;

/** Clients that did not start the gateway read the token here, as root. */
const TOKEN_FILE = "/etc/mcp-gateway/.token";
const VISIBLE = /^[\x21-\x7e]+$/;
const BEARER = /^bearer +(.*)$/i;

export type AccessToken = { readonly digest: Buffer };

export function checkToken(token: string | undefined): string {
  if (token === undefined || token === "") {
    throw new Fault(400, `${TOKEN_VARIABLE} is not set; set it to the token that clients send`);
  }
  if (!VISIBLE.test(token) || token.length > TOKEN_MAX_BYTES) {
    throw new Fault(400, `${TOKEN_VARIABLE} has to be ${TOKEN_MAX_BYTES} visible ASCII characters at most, no spaces`);
  }
  return token;
}

export function accessToken(token: string): AccessToken {
  return { digest: digestOf(token) };
}

export function isBearer({ digest }: AccessToken, authorization: string | null): boolean {
  const given = BEARER.exec(authorization ?? "")?.[1]?.trimEnd() ?? "";
  return timingSafeEqual(digest, digestOf(given));
}

/** Written atomically, without a newline: clients use the content as it is. */
export async function writeTokenFile(token: string, file = TOKEN_FILE): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o755 });
  const unfinished = `${file}.unfinished`;
  await writeFile(unfinished, token, { mode: 0o600 });
  await chmod(unfinished, 0o600);
  await rename(unfinished, file);
}

function digestOf(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
