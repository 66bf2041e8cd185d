/**
 * Turns a build's credentials into a username and password for a registry. The server exchanges cloud credentials for a
 * token, always at the cloud's own address, whatever the credentials say. Errors never contain credentials or tokens.
 */
import { createSign } from "node:crypto";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import type { RegistryCredentials } from "../../contract/internal/host.ts";
import { awsSigned } from "./aws-signature.ts";
import { asRecord, parseJson } from "./manifest.ts";

/** Timeout to exchange cloud credentials for a registry token. */
const LOGIN_MS = scaled(10_000);
export const LOGIN_ANSWER_MAX_BYTES = 64 * 1024;
/** Enough for 4096 bits. Signing blocks the server's thread for a time cubic in the key's length. */
export const LOGIN_KEY_MAX_CHARS = 4096;

export interface RegistryLogin {
  username: string;
  password: string;
}

/** Token endpoints of clouds. Only tests change them. */
interface CloudEndpoints {
  aws(region: string): string;
  google: string;
}

const CLOUDS: CloudEndpoints = {
  aws: (region) => `https://api.ecr.${region}.amazonaws.com${region.startsWith("cn-") ? ".cn" : ""}/`,
  google: "https://oauth2.googleapis.com/token",
};

const REGION = /^[a-z]{2,4}(-[a-z0-9]+){1,4}$/;
const ECR_TARGET = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken";
const GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform";
const GOOGLE_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/** A build needs its token for minutes; Google's maximum is one hour. */
const GOOGLE_TOKEN_SECONDS = 3600;

/** Fault 400: bad credentials; 502: the cloud cannot be asked. */
export async function registryLogin(
  credentials: RegistryCredentials,
  now: number,
  clouds: CloudEndpoints = CLOUDS,
): Promise<RegistryLogin> {
  if (credentials.type === "aws") return await awsLogin(credentials, now, clouds);
  if (credentials.type === "gcp") return await googleLogin(credentials.serviceAccountJson, now, clouds);
  const { username, password } = credentials;
  if (username.includes(":")) throw new Fault(400, "the user name for the registry must not have a colon in it");
  return { username, password };
}

async function awsLogin(
  { region, accessKeyId, secretAccessKey }: Extract<RegistryCredentials, { type: "aws" }>,
  now: number,
  clouds: CloudEndpoints,
): Promise<RegistryLogin> {
  // The region becomes part of a host name.
  if (!REGION.test(region)) throw new Fault(400, `"${region.slice(0, 100)}" is not an AWS region such as us-east-1`);
  if (!/^[\x21-\x7e]{1,128}$/.test(accessKeyId)) throw new Fault(400, "the AWS access key id is not one");
  const url = new URL(clouds.aws(region));
  const body = "{}";
  const headers = awsSigned({
    method: "POST",
    url,
    headers: { "content-type": "application/x-amz-json-1.1", "x-amz-target": ECR_TARGET },
    body,
    service: "ecr",
    region,
    accessKeyId,
    secretAccessKey,
    now,
  });
  const answer = await exchange("AWS", url, headers, body);
  const token = asRecord(asRecord(answer.authorizationData)[0]).authorizationToken;
  const text = typeof token === "string" ? Buffer.from(token, "base64").toString() : "";
  const colon = text.indexOf(":");
  if (colon < 1) throw new Fault(502, "AWS answered without a token for its registry");
  return { username: text.slice(0, colon), password: text.slice(colon + 1) };
}

async function googleLogin(serviceAccountJson: string, now: number, clouds: CloudEndpoints): Promise<RegistryLogin> {
  const { client_email: email, private_key: key } = asRecord(parseJson(serviceAccountJson));
  if (typeof email !== "string" || typeof key !== "string") {
    throw new Fault(400, "the service account for the registry must be JSON with client_email and private_key");
  }
  if (key.length > LOGIN_KEY_MAX_CHARS) {
    const most = `at most ${LOGIN_KEY_MAX_CHARS} are taken, enough for 4096 bits`;
    throw new Fault(400, `the private_key of the service account has ${key.length} characters; ${most}`);
  }
  const seconds = Math.floor(now / 1000);
  const claims = {
    iss: email,
    scope: GOOGLE_SCOPE,
    // Ignore the account's own token_uri: the server must not send requests to addresses that a tenant chose.
    aud: CLOUDS.google,
    iat: seconds,
    exp: seconds + GOOGLE_TOKEN_SECONDS,
  };
  const parts = [{ alg: "RS256", typ: "JWT" }, claims].map((part) => Buffer.from(JSON.stringify(part)));
  const unsigned = parts.map((part) => part.toString("base64url")).join(".");
  let signature: Buffer;
  try {
    signature = createSign("RSA-SHA256").update(unsigned).sign(key);
  } catch {
    throw new Fault(400, "the private_key of the service account for the registry is not an RSA key in PEM form");
  }
  const assertion = `${unsigned}.${signature.toString("base64url")}`;
  const body = new URLSearchParams({ grant_type: GOOGLE_GRANT, assertion }).toString();
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  const answer = await exchange("Google", new URL(clouds.google), headers, body);
  const { access_token: token } = answer;
  if (typeof token !== "string" || token === "") throw new Fault(502, "Google answered without an access token");
  return { username: "oauth2accesstoken", password: token };
}

/** One bounded request to a cloud; returns its JSON object. */
async function exchange(
  cloud: string,
  url: URL,
  headers: Record<string, string>,
  body: string,
): Promise<Record<string, unknown>> {
  let status: number;
  let text: string;
  try {
    const signal = AbortSignal.timeout(LOGIN_MS);
    const response = await fetch(url, { method: "POST", headers, body, redirect: "manual", signal });
    status = response.status;
    text = await bounded(response);
  } catch (cause) {
    if (cause instanceof Fault) throw cause;
    const why = cause instanceof Error && cause.name === "TimeoutError" ? `no answer within ${LOGIN_MS} ms` : "no way";
    throw new Fault(502, `the credentials for the registry could not be exchanged: ${why} at ${url.host}`);
  }
  const answer = asRecord(parseJson(text));
  if (status === 200) return answer;
  const reason = [answer.__type, answer.error].find(
    (word) => typeof word === "string" && /^[\w.#-]{1,100}$/.test(word),
  );
  throw new Fault(
    status >= 400 && status < 500 && status !== 429 ? 400 : 502,
    `${cloud} did not take the credentials for the registry: status ${status}${reason === undefined ? "" : `, ${reason}`}`,
  );
}

async function bounded(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > LOGIN_ANSWER_MAX_BYTES) {
      throw new Fault(502, `the answer to the registry's credentials is longer than ${LOGIN_ANSWER_MAX_BYTES} bytes`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
