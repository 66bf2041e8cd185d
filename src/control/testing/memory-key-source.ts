/** The keys for secrets in memory, in place of a file. */
import type { SecretsKeySource } from "../secrets/secrets-keys.ts";

export class MemoryKeySource implements SecretsKeySource {
  readonly name = "the file of the test";
  isOwn = true;
  /** Undefined: there is no file. */
  keys: Uint8Array[] | undefined;
  /** Awaited nowhere: it may throw as a full disk would. */
  beforeWrite: (keys: readonly Uint8Array[]) => void = () => undefined;

  read(): Uint8Array[] | undefined {
    return this.keys;
  }

  write(keys: readonly Uint8Array[]): void {
    this.beforeWrite(keys);
    this.keys = [...keys];
  }
}
