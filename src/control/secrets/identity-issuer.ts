/**
 * Workload identity: signed tokens (JWT-SVID) that name the sandbox and the team of a request, and the public
 * keys by which anyone verifies them, as OpenID Connect describes. A new signing key is published before it signs, and
 * an old one stays published until its last token has expired.
 */
import { calculateJwkThumbprint, exportJWK, exportPKCS8, generateKeyPair, importPKCS8, type JWK, SignJWT } from "jose";
import { Fault } from "../../contract/fault.ts";
import type { Sandbox } from "../../store/sandboxes.ts";
import type { SigningKey } from "../../store/signing-keys.ts";
import type { Page } from "../http/page.ts";
import type { Parts } from "../parts.ts";
import { aboutSigningKey, type SecretsKeys } from "./secrets-keys.ts";

/** Every cloud accepts it; some accept no other. */
const ALGORITHM = "RS256";
const IDENTITY_TOKEN_SECONDS = 300;
/** Services may cache the published keys for this long, so a new key begins to sign only after it. */
const PUBLISHED_FOR_SECONDS = 300;
/** Clocks of services may be late. */
const CLOCK_SKEW_SECONDS = 300;
/** Signing keys at once; a further rotation must wait until one is gone. */
export const SIGNING_KEYS_MAX = 8;
const DISCOVERY = "/.well-known/openid-configuration";
const KEY_SET = "/.well-known/jwks.json";
const CACHED = { "Cache-Control": `public, max-age=${PUBLISHED_FOR_SECONDS}` };

interface IdentitySettings {
  /** The public address of the server. Undefined: it issues no tokens. */
  issuer: string | undefined;
  /** Keys of a sandbox's metadata that become claims. */
  metadata: readonly string[];
}

type Identified = Pick<Sandbox, "id" | "teamId" | "templateId" | "metadata">;

export class IdentityIssuer {
  /** Private keys by id. */
  readonly #keys = new Map<string, Promise<CryptoKey>>();
  /** Tokens of the current second, which are all alike: a program that makes many requests costs one signature. */
  #signed: { second: number; tokens: Map<string, Promise<string>> } = { second: 0, tokens: new Map() };

  constructor(
    private readonly parts: Pick<Parts, "store" | "clock">,
    private readonly secretsKeys: SecretsKeys,
    private readonly settings: IdentitySettings,
  ) {}

  /** Fault 400 when this server issues no tokens, 403 when its keys are switched off. Makes the first signing key. */
  async requireReady(): Promise<void> {
    if (this.settings.issuer === undefined) {
      throw new Fault(
        400,
        "iam.tokens needs a server with a public address, which becomes the issuer of the tokens; its operator sets SANDLOT_PUBLIC_URL",
      );
    }
    const keys = await this.#listed();
    if (keys.length === 0) await this.#add();
    else await this.#privateKey(this.#signing(keys));
  }

  /** A token that is valid from now on. */
  token(sandbox: Identified, audience: string): Promise<string> {
    const second = Math.floor(this.parts.clock.now() / 1000);
    if (this.#signed.second !== second) this.#signed = { second, tokens: new Map() };
    const { tokens } = this.#signed;
    const name = JSON.stringify([sandbox.id, audience]);
    const token = tokens.get(name) ?? this.#sign(sandbox, audience, second);
    tokens.set(name, token);
    return token;
  }

  async #sign(sandbox: Identified, audience: string, now: number): Promise<string> {
    const { issuer = "" } = this.settings;
    const key = this.#signing(await this.#listed());
    return new SignJWT(this.#claimsOf(sandbox))
      .setProtectedHeader({ alg: ALGORITHM, typ: "JWT", kid: key.id })
      .setIssuer(issuer)
      .setSubject(subjectOf(issuer, sandbox))
      .setAudience(audience)
      .setIssuedAt(now)
      .setNotBefore(now)
      .setExpirationTime(now + IDENTITY_TOKEN_SECONDS)
      .sign(await this.#privateKey(key));
  }

  /** Publishes a new key, which signs once services have had time to read it. Returns when, in milliseconds. */
  async rotate(): Promise<number> {
    const { store, clock } = this.parts;
    const published = this.#published(await this.#listed());
    const oldest = published.at(-1);
    if (oldest !== undefined) await store.signingKeys.removeBefore(oldest.createdAt);
    if (published.length >= SIGNING_KEYS_MAX) {
      throw new Fault(409, `${published.length} signing keys are still published; try again when their tokens expired`);
    }
    await this.#add();
    return published.length === 0 ? clock.now() : clock.now() + PUBLISHED_FOR_SECONDS * 1000;
  }

  /** Discovery and keys, as a service that trusts the tokens reads them. */
  get pages(): readonly Page[] {
    return [
      publicPage(DISCOVERY, async () => this.#discovery()),
      publicPage(KEY_SET, async () => {
        this.#requireIssuer();
        const keys = this.#published(await this.#listed()).map(({ publicKey }) => JSON.parse(publicKey) as JWK);
        return { keys };
      }),
    ];
  }

  #discovery(): object {
    const issuer = this.#requireIssuer();
    return {
      issuer,
      jwks_uri: `${issuer}${KEY_SET}`,
      response_types_supported: ["id_token"],
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: [ALGORITHM],
      claims_supported: ["iss", "sub", "aud", "iat", "nbf", "exp", "team_id", "template_id", "sandbox_id", "metadata"],
    };
  }

  #requireIssuer(): string {
    const { issuer } = this.settings;
    if (issuer === undefined) throw new Fault(404, "this server has no public address, so it issues no tokens");
    return issuer;
  }

  #claimsOf({ id, teamId, templateId, metadata }: Identified) {
    const chosen = this.settings.metadata.filter((key) => Object.hasOwn(metadata, key));
    const claims = { team_id: teamId, template_id: templateId, sandbox_id: id };
    if (chosen.length === 0) return claims;
    return { ...claims, metadata: Object.fromEntries(chosen.map((key) => [key, metadata[key]])) };
  }

  async #add(): Promise<void> {
    const { store, clock } = this.parts;
    const { publicKey, privateKey } = await generateKeyPair(ALGORITHM, { extractable: true });
    const jwk = await exportJWK(publicKey);
    const id = await calculateJwkThumbprint(jwk);
    const pem = await exportPKCS8(privateKey);
    await store.transaction(async (tables) => {
      const sealed = await this.secretsKeys.seal(tables, aboutSigningKey(id), pem);
      const published = JSON.stringify({ ...jwk, kid: id, alg: ALGORITHM, use: "sig" });
      await tables.signingKeys.add({ id, publicKey: published, ...sealed, createdAt: clock.now() });
    });
  }

  #listed(): Promise<SigningKey[]> {
    return this.parts.store.signingKeys.list(2 * SIGNING_KEYS_MAX);
  }

  /** The newest that has been published for long enough; `keys` are newest first. */
  #signing(keys: readonly SigningKey[]): SigningKey {
    const before = this.parts.clock.now() - PUBLISHED_FOR_SECONDS * 1000;
    const key = keys.find(({ createdAt }) => createdAt <= before) ?? keys.at(-1);
    if (key === undefined) throw new Fault(503, "this server has no signing key yet; try again");
    return key;
  }

  /** Without keys whose last token has expired. */
  #published(keys: readonly SigningKey[]): readonly SigningKey[] {
    if (keys.length === 0) return keys;
    const signing = this.#signing(keys);
    const lastOfEarlier =
      signing.createdAt + (PUBLISHED_FOR_SECONDS + IDENTITY_TOKEN_SECONDS + CLOCK_SKEW_SECONDS) * 1000;
    const isAllNeeded = this.parts.clock.now() < lastOfEarlier;
    return isAllNeeded ? keys : keys.filter(({ createdAt }) => createdAt >= signing.createdAt);
  }

  #privateKey(key: SigningKey): Promise<CryptoKey> {
    const known = this.#keys.get(key.id);
    if (known !== undefined) return known;
    const read = Promise.try(() => importPKCS8(this.secretsKeys.open(aboutSigningKey(key.id), key), ALGORITHM));
    if (this.#keys.size >= SIGNING_KEYS_MAX) this.#keys.clear();
    this.#keys.set(key.id, read);
    read.catch(() => this.#keys.delete(key.id));
    return read;
  }
}

/** Ids, because names can be given to others later. */
function subjectOf(issuer: string, { id, teamId, templateId }: Identified): string {
  const trustDomain = new URL(issuer).hostname.replaceAll(/[^a-z0-9._-]/g, "-");
  return `spiffe://${trustDomain}/team/${teamId}/template/${templateId}/sandbox/${id}`;
}

function publicPage(path: string, read: () => Promise<object>): Page {
  return {
    method: "GET",
    path,
    answer: async () => Response.json(await read(), { headers: CACHED }),
    refuse: (fault) => Response.json(fault.toBody(), { status: fault.status, headers: { ...fault.headers } }),
  };
}
