/**
 * `sandlot secrets …`: secrets of a team, through the running server, which alone has the key. A value is read from a
 * terminal, without showing it, or from standard input, never from an argument: other users see arguments.
 */
import { Fault } from "../../contract/fault.ts";
import { SECRET_VALUE_MAX_BYTES } from "../../contract/management/limits.ts";
import type { SecretView } from "../../contract/management/secret.ts";
import { DEFAULT_TEAM_SLUG, teamNamed } from "../../control/access/people.ts";
import type { Rotation } from "../../control/secrets/secrets-keys.ts";
import { adminCall } from "../admin-client.ts";
import { printList } from "../print-list.ts";
import type { Config } from "../settings/config.ts";
import { withStore } from "../with-store.ts";
import { askHidden } from "./hidden-input.ts";

/** Encrypting everything again may take this long. */
const ROTATION_MS = 600_000;
const PAGES_MAX = 10_000;

/** As a member of the team, with the rights of root. */
type Call = (request: string, body?: object) => Promise<Response>;

export async function listSecrets(config: Config, team: string | undefined): Promise<number> {
  const call = await callerFor(config, team);
  const lines: string[] = [];
  let token: string | null = "";
  for (let pages = 0; token !== null && pages < PAGES_MAX; pages++) {
    const response = await call(`GET /secrets?nextToken=${encodeURIComponent(token)}`);
    for (const { name, secretID, currentVersion, updatedAt } of (await response.json()) as SecretView[]) {
      lines.push(`${name}  ${secretID}  version ${currentVersion}  ${updatedAt}`);
    }
    token = response.headers.get("x-next-token");
  }
  printList(lines, `no secrets in team ${team ?? DEFAULT_TEAM_SLUG}`);
  return 0;
}

export async function setSecret(config: Config, team: string | undefined, name: string): Promise<number> {
  const call = await callerFor(config, team);
  const value = process.stdin.isTTY ? await askHidden(`Value of ${name}: `) : await wholeInput();
  const secret = await changed(call, name, value);
  console.log(`${secret.name} has version ${secret.currentVersion}; it applies to the next request`);
  return 0;
}

export async function deleteSecret(config: Config, team: string | undefined, name: string): Promise<number> {
  const call = await callerFor(config, team);
  await call(`DELETE /secrets/${encodeURIComponent(name)}`);
  console.log(`deleted ${name}`);
  return 0;
}

export async function rotateKey(config: Config): Promise<number> {
  const response = await adminCall(config, "POST /secrets-key", { callMs: ROTATION_MS });
  const { values, signingKeys, leftover } = (await response.json()) as Rotation;
  console.log(`encrypted ${values} values and ${signingKeys} signing keys with the new key`);
  if (leftover !== undefined) console.log(`remove the lines after the first from the key's file: ${leftover}`);
  return 0;
}

export async function rotateSigningKey(config: Config): Promise<number> {
  const { signsAt } = (await (await adminCall(config, "POST /signing-key")).json()) as { signsAt: number };
  console.log(`published a new key; it signs from ${new Date(signsAt).toISOString()}`);
  return 0;
}

async function callerFor(config: Config, slug = DEFAULT_TEAM_SLUG): Promise<Call> {
  const { id } = await withStore(config, (store) => teamNamed(store, slug));
  return (request, body) => adminCall(config, request, { headers: { "x-team-id": id }, ...(body && { body }) });
}

/** Sets a new value, or creates the secret. */
async function changed(call: Call, name: string, value: string): Promise<SecretView> {
  try {
    return (await (await call(`POST /secrets/${encodeURIComponent(name)}`, { value })).json()) as SecretView;
  } catch (error) {
    if (!(error instanceof Fault) || error.status !== 404) throw error;
    return (await (await call("POST /secrets", { name, value })).json()) as SecretView;
  }
}

/** Without the line break at its end, which editors and `echo` add. */
async function wholeInput(): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of process.stdin) {
    chunks.push(Buffer.from(chunk));
    bytes += chunk.length;
    if (bytes > 2 * SECRET_VALUE_MAX_BYTES) throw new Fault(400, `a value has at most ${SECRET_VALUE_MAX_BYTES} bytes`);
  }
  return Buffer.concat(chunks)
    .toString("utf8")
    .replace(/\r?\n$/, "");
}
