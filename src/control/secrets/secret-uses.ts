/**
 * Counts the uses of secrets, by version, sandbox and host: in memory, and every few seconds in the store. A crash
 * loses the last of them. Hosts of one sandbox are bounded, because its program chooses them: beyond
 * the bound they are counted under the pattern of the rule.
 */
import type { Timer } from "../../base/clock.ts";
import type { SecretUse } from "../../store/secret-uses.ts";
import type { Tables } from "../../store/store.ts";
import type { Parts } from "../parts.ts";

const USES_WRITTEN_EVERY_MS = 5_000;
/** Uses that wait to be written. Further ones are counted under their patterns, and at twice this not at all. */
const USES_WAITING_MAX = 10_000;
/** Of one sandbox and secret. */
export const USE_HOSTS_PER_SANDBOX_MAX = 20;
/** Per secret; those of the longest ago are removed. */
export const SECRET_USES_KEPT_MAX = 1_000;

interface Use {
  secretId: string;
  version: number;
  sandboxId: string;
  host: string;
  /** Of the rule. */
  pattern: string;
}

type Waiting = SecretUse & Pick<Use, "pattern">;

export class SecretUses {
  #waiting = new Map<string, Waiting>();
  #timer: Timer | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(private readonly services: Pick<Parts, "store" | "clock" | "idleClock" | "background">) {}

  note(use: Use): void {
    const isMany = this.#waiting.size >= USES_WAITING_MAX;
    const host = isMany ? use.pattern : use.host;
    const key = keyOf({ ...use, host });
    const now = this.services.clock.now();
    const known = this.#waiting.get(key);
    if (known !== undefined) {
      known.count += 1;
      known.lastAt = now;
    } else if (this.#waiting.size < 2 * USES_WAITING_MAX) {
      this.#waiting.set(key, { ...use, host, count: 1, firstAt: now, lastAt: now });
    }
    this.#flushSoon();
  }

  /** Writes what waits. If the store fails, it stays for the next flush. */
  async flush(): Promise<void> {
    this.#writing = this.#writing.catch(() => undefined).then(() => this.#flush());
    await this.#writing;
  }

  async close(): Promise<void> {
    this.#timer?.cancel();
    await this.flush();
  }

  #flushSoon(): void {
    const { idleClock, background } = this.services;
    this.#timer ??= idleClock.after(USES_WRITTEN_EVERY_MS, () => {
      this.#timer = undefined;
      background.run("the use of secrets could not be recorded", () => this.flush());
    });
  }

  async #flush(): Promise<void> {
    const batch = this.#waiting;
    if (batch.size === 0) return;
    this.#waiting = new Map();
    try {
      await this.services.store.transaction((tables) => record(tables, [...batch.values()]), "server");
    } catch (error) {
      for (const [key, use] of this.#waiting) {
        const earlier = batch.get(key);
        batch.set(
          key,
          earlier === undefined ? use : { ...use, count: use.count + earlier.count, firstAt: earlier.firstAt },
        );
      }
      this.#waiting = batch;
      this.#flushSoon();
      throw error;
    }
  }
}

async function record({ secretUses }: Tables, uses: readonly Waiting[]): Promise<void> {
  for (const [, ofSandbox] of Map.groupBy(uses, ({ secretId, sandboxId }) => `${secretId} ${sandboxId}`)) {
    const [{ secretId = "", sandboxId = "" } = {}] = ofSandbox;
    const hosts = new Set(await secretUses.hostsOf(secretId, sandboxId, USE_HOSTS_PER_SANDBOX_MAX));
    for (const { pattern, ...use } of ofSandbox) {
      const host = hosts.has(use.host) || hosts.size < USE_HOSTS_PER_SANDBOX_MAX ? use.host : pattern;
      hosts.add(host);
      await secretUses.add({ ...use, host });
    }
  }
  for (const id of new Set(uses.map(({ secretId }) => secretId))) {
    await secretUses.removeBeyond(id, SECRET_USES_KEPT_MAX);
  }
}

function keyOf({ secretId, version, sandboxId, host }: Use): string {
  return [secretId, version, sandboxId, host].join(" ");
}
