/**
 * Tokens that open the content of one volume for a limited time. The server signs them and stores none. They have the
 * form of JSON Web Tokens, which clients treat as opaque.
 */
import { createHmac } from "node:crypto";
import { Fault } from "../../contract/fault.ts";
import type { Volume } from "../../store/volumes.ts";
import { isSame } from "../access/credentials.ts";

export const VOLUME_TOKEN_MS = 3_600_000;

/** Tokens of this server have less than half of it. */
const VOLUME_TOKEN_MAX_CHARS = 1024;

interface Claims {
  iss: string;
  sub: string;
  volid: string;
  iat: number;
  exp: number;
}

const ISSUER = "sandlot";
const HEADER = encoded({ alg: "HS256", typ: "JWT" });

export class VolumeTokens {
  readonly #secret: Uint8Array;

  constructor(secret: Uint8Array) {
    this.#secret = secret;
  }

  make({ id, teamId }: Pick<Volume, "id" | "teamId">, now: number): string {
    const seconds = Math.floor(now / 1000);
    const claims = { iss: ISSUER, sub: teamId, volid: id, iat: seconds, exp: seconds + VOLUME_TOKEN_MS / 1000 };
    const signed = `${HEADER}.${encoded(claims)}`;
    return `${signed}.${this.#signature(signed)}`;
  }

  /** The volume and team of a token. Fault 401 when it is not valid. */
  read(token: string, now: number): { volumeId: string; teamId: string } {
    const [header = "", body = "", signature = "", ...rest] = token.slice(0, VOLUME_TOKEN_MAX_CHARS).split(".");
    const isRight = isSame(signature, this.#signature(`${header}.${body}`));
    // The header must be this server's: there is one signing method, and a token does not choose it.
    if (!isRight || header !== HEADER || rest.length > 0) throw invalid();
    const { sub, volid, exp } = JSON.parse(Buffer.from(body, "base64url").toString()) as Claims;
    if (now >= exp * 1000)
      throw new Fault(401, "the volume token has expired; get a new one from GET /volumes/{volumeID}");
    return { volumeId: volid, teamId: sub };
  }

  #signature(text: string): string {
    return createHmac("sha256", this.#secret).update(text).digest("base64url");
  }
}

function encoded(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

function invalid(): Fault {
  return new Fault(401, "the volume token is not valid; get one from GET /volumes/{volumeID}");
}
