/**
 * The file with the key that encrypts secrets: one key a line, as 64 hex characters. By default the server makes it in
 * its data folder; the operator may name another one, which the server then never makes.
 */
import { closeSync, fsyncSync, openSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { errorMessage } from "../../base/error-message.ts";
import { Fault } from "../../contract/fault.ts";
import { SECRETS_KEY_BYTES, SECRETS_KEYS_MAX, type SecretsKeySource } from "../../control/secrets/secrets-keys.ts";
import { readText } from "../../system/data-folder.ts";
import type { Config } from "../settings/config.ts";

const LINE = new RegExp(`^[0-9a-f]{${2 * SECRETS_KEY_BYTES}}$`, "i");
const OTHERS_MAY_READ = 0o004;

export class SecretsKeyFile implements SecretsKeySource {
  readonly name: string;
  readonly isOwn: boolean;

  constructor({ dataFolder, secretsKeyFile }: Pick<Config, "dataFolder" | "secretsKeyFile">) {
    this.name = secretsKeyFile ?? join(dataFolder, "secrets-key");
    this.isOwn = secretsKeyFile === undefined;
  }

  read(): Uint8Array[] | undefined {
    let text: string | undefined;
    try {
      text = readText(this.name);
      if (text !== undefined && (statSync(this.name).mode & OTHERS_MAY_READ) !== 0) {
        throw new Fault(409, `${this.name} may be read by every user. FIX: chmod 600 ${this.name}`);
      }
    } catch (cause) {
      if (cause instanceof Fault) throw cause;
      throw new Fault(409, `${this.name} cannot be read: ${errorMessage(cause)}`, { cause });
    }
    const lines = text?.split("\n").map((line) => line.trim());
    const keys = lines?.filter((line) => line !== "");
    if (keys === undefined) return undefined;
    if (keys.length >= 1 && keys.length <= SECRETS_KEYS_MAX && keys.every((key) => LINE.test(key))) {
      return keys.map((key) => Uint8Array.fromHex(key));
    }
    throw new Fault(
      409,
      `${this.name} holds no key: it must have 1 to ${SECRETS_KEYS_MAX} lines of ${2 * SECRETS_KEY_BYTES} hex characters`,
    );
  }

  write(keys: readonly Uint8Array[]): void {
    const written = `${this.name}.${crypto.randomUUID()}`;
    try {
      writeDurably(written, keys.map((key) => `${key.toHex()}\n`).join(""));
      renameSync(written, this.name);
      syncFolder(dirname(this.name));
    } catch (cause) {
      rmSync(written, { force: true });
      throw new Fault(409, `${this.name} cannot be written: ${errorMessage(cause)}`, { cause });
    }
  }
}

function writeDurably(path: string, text: string): void {
  const file = openSync(path, "wx", 0o600);
  try {
    writeSync(file, text);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

function syncFolder(path: string): void {
  const folder = openSync(path, "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
