/**
 * The key that encrypts secrets and signing keys in the store: AES-256-GCM, bound to what the value belongs to, so that
 * a value moved to another row cannot be opened. The store names the key in use by an id from which the key cannot be
 * computed; the keys themselves lie in a file outside the store. The first key of the file is the one to use.
 *
 * A rotation writes the new key above the old one, names it in the store, encrypts every value again, and removes the
 * old key from the file. The server reads both meanwhile. After a crash at any point, the next rotation continues.
 */
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto";
import { described } from "../../base/log.ts";
import { SerialQueue } from "../../base/serial-queue.ts";
import { Fault } from "../../contract/fault.ts";
import type { Tables } from "../../store/store.ts";
import type { Parts } from "../parts.ts";

export const SECRETS_KEY_BYTES = 32;
/** A file holds two during a rotation. */
export const SECRETS_KEYS_MAX = 8;
const CIPHER = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** The state of the server that has the id of the key in use. */
const KEY_IN_USE = "secrets key";
const KEY_ID_CHARS = 16;
/** Values encrypted again in one transaction. */
const ROTATED_AT_ONCE = 100;

/** Where the keys lie. */
export interface SecretsKeySource {
  /** For messages to the operator. */
  readonly name: string;
  /** The server makes a key there at its first start. */
  readonly isOwn: boolean;
  /** Undefined: there is no file. A Fault with the reason when it cannot be read. */
  read(): Uint8Array[] | undefined;
  /** Replaces the content, so that a crash leaves the old or the new one. A Fault with the reason when it cannot. */
  write(keys: readonly Uint8Array[]): void;
}

interface Sealed {
  sealed: string;
  keyId: string;
}

export interface Rotation {
  values: number;
  signingKeys: number;
  /** The file could not be written: the operator removes the old key from it. */
  leftover: string | undefined;
}

type KeyServices = Pick<Parts, "store" | "clock" | "log">;

export class SecretsKeys {
  #keys = new Map<string, Uint8Array>();
  readonly #rotations = new SerialQueue();

  constructor(
    private readonly services: KeyServices,
    private readonly source: SecretsKeySource,
  ) {}

  /** Makes the key of a new server. Never throws because of a missing or wrong key. */
  async start(): Promise<void> {
    const { store, clock, log } = this.services;
    const problem = await this.problem();
    if (problem === undefined && (await this.#idInUse(store)) !== undefined) return;
    // Without a value to lose, the key in the file counts from now on.
    if (!(await store.secrets.hasValues())) {
      try {
        const keys = this.source.read() ?? (this.source.isOwn ? this.#made() : []);
        const [key] = keys;
        if (key !== undefined) {
          await store.serverState.set(KEY_IN_USE, idOf(key), clock.now());
          const count = await store.signingKeys.removeSealedOtherwise(idOf(key));
          if (count > 0) log.write({ level: "warn", event: "signing keys of another secrets key were removed", count });
          return this.#learn(keys);
        }
      } catch (error) {
        log.write({ level: "error", event: "the key for secrets cannot be made", error: described(error) });
      }
    }
    log.write({ level: "error", event: "secrets are switched off", error: problem ?? "the server has no key" });
  }

  /** Why secrets cannot be used, for the operator; undefined: they can, or no server has made a key yet. */
  async problem(): Promise<string | undefined> {
    const inUse = await this.#idInUse(this.services.store);
    if (inUse === undefined) return undefined;
    let keys: Uint8Array[] | undefined;
    try {
      keys = this.source.read();
    } catch (error) {
      return Fault.from(error).message;
    }
    const { name } = this.source;
    if (keys === undefined) return `there is no key at ${name}`;
    this.#learn(keys);
    if (this.#keys.has(inUse)) return undefined;
    return `${name} holds another key than the one that encrypted the stored secrets`;
  }

  /** Encrypts with the key in use, which stays the one in use until the transaction ends. Fault 403 without it. */
  async seal(tables: Pick<Tables, "serverState">, about: readonly string[], text: string): Promise<Sealed> {
    const keyId = (await this.#idInUse(tables)) ?? "";
    const key = this.#key(keyId);
    if (!(await tables.serverState.hold(KEY_IN_USE, keyId))) throw rotating();
    return { sealed: encrypted(key, about, text), keyId };
  }

  /** Fault 403 without the key, 500 for a value that is not what it should be. */
  open(about: readonly string[], { sealed, keyId }: Sealed): string {
    return decrypted(this.#key(keyId), about, sealed);
  }

  /** Encrypts everything with a new key, or finishes the rotation that was interrupted. */
  rotate(): Promise<Rotation> {
    return this.#rotations.run(() => this.#rotate());
  }

  async #rotate(): Promise<Rotation> {
    const { store, clock } = this.services;
    const problem = await this.problem();
    if (problem !== undefined) throw new Fault(409, `the key cannot be rotated: ${problem}`);
    const inUse = await this.#idInUse(store);
    if (inUse === undefined) throw new Fault(409, `the key cannot be rotated: there is no key at ${this.source.name}`);
    let keys = this.source.read() ?? [];
    const isFinished = keys.length === 1 && (await this.#left(inUse)) === 0;
    if (isFinished) {
      keys = [randomBytes(SECRETS_KEY_BYTES), ...keys];
      this.source.write(keys);
      this.#learn(keys);
    }
    const [target = new Uint8Array()] = keys;
    const targetId = idOf(target);
    if (targetId !== inUse) await store.serverState.set(KEY_IN_USE, targetId, clock.now());
    const values = await this.#resealed(({ secrets }) => this.#resealValues(secrets, target));
    const signing = await this.#resealed(({ signingKeys }) => this.#resealSigningKeys(signingKeys, target));
    return { values, signingKeys: signing, leftover: this.#drop(keys, target) };
  }

  /** Removes the other keys from the file. The reason if it cannot. */
  #drop(keys: readonly Uint8Array[], target: Uint8Array): string | undefined {
    if (keys.length === 1) return undefined;
    try {
      this.source.write([target]);
      this.#learn([target]);
      return undefined;
    } catch (error) {
      return Fault.from(error).message;
    }
  }

  /** Repeats a step, each in a transaction that survives a crash, until it finds nothing. */
  async #resealed(step: (tables: Tables) => Promise<number>): Promise<number> {
    for (let all = 0; ; ) {
      const some = await this.services.store.transaction(step);
      if (some === 0) return all;
      all += some;
    }
  }

  async #resealValues(secrets: Tables["secrets"], target: Uint8Array): Promise<number> {
    const found = await secrets.sealedOtherwise(idOf(target), ROTATED_AT_ONCE);
    for (const value of found) {
      await secrets.reseal(value, this.#resealedWith(target, aboutValue(value), value));
    }
    return found.length;
  }

  async #resealSigningKeys(signingKeys: Tables["signingKeys"], target: Uint8Array): Promise<number> {
    const found = await signingKeys.sealedOtherwise(idOf(target), ROTATED_AT_ONCE);
    for (const key of found) {
      await signingKeys.reseal(key, this.#resealedWith(target, aboutSigningKey(key.id), key));
    }
    return found.length;
  }

  #resealedWith(target: Uint8Array, about: readonly string[], from: Sealed): Sealed {
    try {
      return { sealed: encrypted(target, about, this.open(about, from)), keyId: idOf(target) };
    } catch (cause) {
      const what = about.join(" ");
      const fix = "delete that secret, then rotate the key again; both keys stay in use until then";
      throw new Fault(409, `the stored "${what}" cannot be opened. FIX: ${fix}`, { cause });
    }
  }

  async #left(keyId: string): Promise<number> {
    const { secrets, signingKeys } = this.services.store;
    return (await secrets.sealedOtherwise(keyId, 1)).length + (await signingKeys.sealedOtherwise(keyId, 1)).length;
  }

  #made(): Uint8Array[] {
    const keys = [randomBytes(SECRETS_KEY_BYTES)];
    this.source.write(keys);
    return keys;
  }

  #learn(keys: readonly Uint8Array[]): void {
    this.#keys = new Map(keys.map((key) => [idOf(key), key]));
  }

  /** Reads the file again for a key that it did not hold before: another process may have rotated it. */
  #key(id: string): Uint8Array {
    if (!this.#keys.has(id)) {
      try {
        this.#learn(this.source.read() ?? []);
      } catch {
        // The problem is in the log since the start, and `problem` returns it.
      }
    }
    const key = this.#keys.get(id);
    if (key !== undefined) return key;
    throw new Fault(
      403,
      "secrets are switched off on this server, because their key is missing; its operator finds the reason with `sandlot doctor`",
    );
  }

  async #idInUse({ serverState }: Pick<Tables, "serverState">): Promise<string | undefined> {
    return (await serverState.of(KEY_IN_USE))?.value;
  }
}

export function aboutValue(value: { teamId: string; secretId: string; version: number }): string[] {
  return ["secret", value.teamId, value.secretId, String(value.version)];
}

export function aboutSigningKey(id: string): string[] {
  return ["signing key", id];
}

function encrypted(key: Uint8Array, about: readonly string[], text: string): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce).setAAD(bound(about));
  return Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]).toString("base64");
}

function decrypted(key: Uint8Array, about: readonly string[], sealed: string): string {
  const bytes = Buffer.from(sealed, "base64");
  try {
    const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
    decipher.setAAD(bound(about)).setAuthTag(bytes.subarray(bytes.length - TAG_BYTES));
    const content = bytes.subarray(NONCE_BYTES, bytes.length - TAG_BYTES);
    return decipher.update(content, undefined, "utf8") + decipher.final("utf8");
  } catch (cause) {
    throw new Fault(500, "a stored secret is damaged; set its value again", { cause });
  }
}

function bound(about: readonly string[]): Buffer {
  return Buffer.from(JSON.stringify(about));
}

/** Also the check value of the key: another key has another id. */
function idOf(key: Uint8Array): string {
  return createHmac("sha256", key).update("id of a key for secrets").digest("hex").slice(0, KEY_ID_CHARS);
}

function rotating(): Fault {
  return new Fault(503, "the key for secrets is being rotated; try again in a moment", { retryAfterSeconds: 1 });
}
