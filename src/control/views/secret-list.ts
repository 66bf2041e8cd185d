/** Pages of secrets and of their uses. */
import type { ListSecretsQuery, SecretUseView, SecretView } from "../../contract/management/secret.ts";
import type { Team } from "../../store/people.ts";
import type { SecretUse } from "../../store/secret-uses.ts";
import type { Secret, SecretPosition } from "../../store/secrets.ts";
import type { Store } from "../../store/store.ts";
import { pageOf, readPageToken } from "./page-token.ts";

const SECRET_LINE = /^(\d{1,15}) (sec_[a-z0-9]{20})$/;

export async function listSecrets(store: Store, team: Team, { limit, nextToken: token }: ListSecretsQuery) {
  const after = token ? secretPosition(token) : undefined;
  const found = await store.secrets.list(team.id, after, limit + 1);
  const { page, nextToken } = pageOf(found, limit, ({ createdAt, id }) => `${createdAt} ${id}`);
  return { secrets: page.map(asSecret), nextToken };
}

export async function listUses(store: Store, secret: Secret, { limit, nextToken: token }: ListSecretsQuery) {
  // The list is short, and a host's name would make the token long.
  const skipped = token ? Number(readPageToken(token, /^(\d{1,6})$/)[0]) : 0;
  const found = await store.secretUses.of(secret.id, skipped, limit + 1);
  const { page, nextToken } = pageOf(found, limit, () => String(skipped + limit));
  return { uses: page.map(asUse), nextToken };
}

export function asSecret({ id, name, version, metadata, createdAt, updatedAt }: Secret): SecretView {
  return {
    secretID: id,
    name,
    currentVersion: version,
    metadata,
    createdAt: new Date(createdAt).toISOString(),
    updatedAt: new Date(updatedAt).toISOString(),
  };
}

function asUse({ sandboxId, version, host, count, firstAt, lastAt }: SecretUse): SecretUseView {
  return {
    sandboxID: sandboxId,
    version,
    host,
    count,
    firstAt: new Date(firstAt).toISOString(),
    lastAt: new Date(lastAt).toISOString(),
  };
}

function secretPosition(token: string): SecretPosition {
  const [createdAt, id = ""] = readPageToken(token, SECRET_LINE);
  return { createdAt: Number(createdAt), id };
}
