/**
 * Creates that a client may repeat: with the same `Idempotency-Key` and the same request it gets the same sandbox. The
 * store keeps a hash of the key and of the request, never a response: that is made from the sandbox again. The key is
 * recorded in the transaction that records the sandbox, so a crash leaves both or neither, and a failed create leaves
 * the key free. Of concurrent requests with one key, the first creates and the others are rejected.
 */
import { sha256 } from "../../base/sha256.ts";
import { Fault } from "../../contract/fault.ts";
import { IDEMPOTENCY_KEY_KEPT_MS, IDEMPOTENCY_KEY_MAX_CHARS } from "../../contract/management/limits.ts";
import type { IdempotencyKey } from "../../store/idempotency-keys.ts";
import type { Team } from "../../store/people.ts";
import type { Sandbox } from "../../store/sandboxes.ts";
import type { Tables } from "../../store/store.ts";
import type { Parts } from "../parts.ts";
import { shownState } from "./sandbox-status.ts";

/** A create is rejected when its team has used this many keys in the time that they are kept. */
export const IDEMPOTENCY_KEYS_PER_TEAM_MAX = 50_000;
const PRINTABLE = /^[ -~]+$/;

/** A request with the key that its client chose. */
export interface Repeatable {
  key: string;
  /** Everything that must be the same in a repetition, as plain data. */
  request: unknown;
}

export type CreateKey = Pick<IdempotencyKey, "teamId" | "keyHash" | "requestHash">;

export class IdempotentCreates {
  /** Hashes of the requests in progress, by team and key. At most as many as there are requests. */
  readonly #underWay = new Map<string, string>();

  constructor(private readonly parts: Pick<Parts, "store" | "clock">) {}

  /** Fault 400 for an invalid key, 409 for one of another or unfinished request or of an ended sandbox. */
  async run(
    team: Team,
    { key, request }: Repeatable,
    create: (key: CreateKey) => Promise<Sandbox>,
  ): Promise<{ sandbox: Sandbox; isReplay: boolean }> {
    const createKey = { teamId: team.id, keyHash: sha256(checked(key)), requestHash: sha256(canonical(request)) };
    const earlier = await this.#earlier(createKey);
    if (earlier !== undefined) return { sandbox: earlier, isReplay: true };
    const name = `${team.id} ${createKey.keyHash}`;
    const other = this.#underWay.get(name);
    if (other !== undefined) throw other === createKey.requestHash ? inProgress() : otherRequest();
    this.#underWay.set(name, createKey.requestHash);
    try {
      await this.#requireFree(team);
      return { sandbox: await create(createKey), isReplay: false };
    } finally {
      this.#underWay.delete(name);
    }
  }

  async #earlier({ teamId, keyHash, requestHash }: CreateKey): Promise<Sandbox | undefined> {
    const { store, clock } = this.parts;
    const found = await store.idempotencyKeys.find(teamId, keyHash, clock.now() - IDEMPOTENCY_KEY_KEPT_MS);
    if (found === undefined) return undefined;
    if (found.requestHash !== requestHash) throw otherRequest();
    const sandbox = await store.sandboxes.byId(found.sandboxId);
    if (sandbox === undefined || shownState(sandbox, clock.now()) === undefined) throw ended(found.sandboxId);
    return sandbox;
  }

  async #requireFree(team: Team): Promise<void> {
    const { store, clock } = this.parts;
    const used = await store.idempotencyKeys.countOf(team.id, clock.now() - IDEMPOTENCY_KEY_KEPT_MS);
    if (used < IDEMPOTENCY_KEYS_PER_TEAM_MAX) return;
    throw new Fault(
      429,
      `this team has used ${IDEMPOTENCY_KEYS_PER_TEAM_MAX} idempotency keys in 24 hours, as many as a team may; ` +
        "send the request without the header Idempotency-Key, or later",
    );
  }
}

/** Fault 409 when another request has recorded a sandbox under the key. */
export async function recordKey({ idempotencyKeys }: Tables, key: CreateKey, sandbox: Sandbox): Promise<void> {
  const createdAt = sandbox.startedAt;
  const isNew = await idempotencyKeys.add(
    { ...key, sandboxId: sandbox.id, createdAt },
    createdAt - IDEMPOTENCY_KEY_KEPT_MS,
  );
  if (!isNew) throw inProgress();
}

function checked(key: string): string {
  if (key.length <= IDEMPOTENCY_KEY_MAX_CHARS && PRINTABLE.test(key)) return key;
  throw new Fault(
    400,
    `the header Idempotency-Key must have 1 to ${IDEMPOTENCY_KEY_MAX_CHARS} printable ASCII characters, got ${key.length}` +
      (key.length > 0 && key.length <= IDEMPOTENCY_KEY_MAX_CHARS ? " with others among them" : ""),
  );
}

/** The same text for objects that differ only in the order of their fields. */
function canonical(request: unknown): string {
  return JSON.stringify(request, (_, value) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)))
      : value,
  );
}

function otherRequest(): Fault {
  return new Fault(
    409,
    "this Idempotency-Key was used for another request; send a new key, or the same request as before",
    { errorCode: "idempotency_request_mismatch" },
  );
}

function inProgress(): Fault {
  return new Fault(409, "a request with this Idempotency-Key is in progress; repeat it after Retry-After seconds", {
    errorCode: "idempotency_in_progress",
    retryAfterSeconds: 1,
  });
}

function ended(id: string): Fault {
  return new Fault(409, `the sandbox "${id}" that this Idempotency-Key created has ended; send a new key for another`, {
    errorCode: "idempotency_sandbox_ended",
  });
}
