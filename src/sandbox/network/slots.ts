/** Assigns one of the machine's slot nets to each server, and tracks which slots of that net are taken. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { NET_COUNT, SLOT_FIRST, SLOT_LAST } from "../../contract/address-plan.ts";
import { Fault } from "../../contract/fault.ts";
import { type DataFolder, lockOfAllServers, otherServers, readText } from "../../system/data-folder.ts";

/** The number of the server's net. The assignment lasts as long as the server's run folder. */
export function serverNet({ runFolder, tag }: Pick<DataFolder, "runFolder" | "tag">): number {
  const own = join(runFolder, "net");
  using _lock = lockOfAllServers("nets");
  if (existsSync(own)) return Number(readFileSync(own, "utf8"));
  const taken = new Set(otherServers(tag).map((folder) => Number(readText(join(folder, "net")) ?? -1)));
  for (let net = 0; net < NET_COUNT; net++) {
    if (taken.has(net)) continue;
    writeFileSync(own, String(net));
    return net;
  }
  throw new Fault(503, `${NET_COUNT} servers already run on this machine. FIX: stop one with \`sandlot down\``);
}

export class Slots {
  readonly #taken = new Set<number>();
  readonly #waiting = new Set<() => void>();
  #next = SLOT_FIRST;

  readonly count = SLOT_LAST - SLOT_FIRST + 1;

  get freeCount(): number {
    return this.count - this.#taken.size;
  }

  /** Round robin, so that a freed address rests before reuse. Throws Fault 503 when there is none. */
  take(): number {
    for (let tried = SLOT_FIRST; tried <= SLOT_LAST; tried++) {
      const slot = this.#next;
      this.#next = slot === SLOT_LAST ? SLOT_FIRST : slot + 1;
      if (this.#taken.has(slot)) continue;
      this.#taken.add(slot);
      return slot;
    }
    throw new Fault(503, `all ${this.count} network slots are in use`);
  }

  takePreferring(slot: number | undefined): number {
    if (slot === undefined || this.#taken.has(slot)) return this.take();
    this.#taken.add(slot);
    return slot;
  }

  adopt(slot: number): void {
    this.#taken.add(slot);
  }

  free(slot: number): void {
    this.#taken.delete(slot);
    for (const wake of this.#waiting) wake();
  }

  /** Settles when a slot is freed, or after `withinMs`. */
  async untilFreed(withinMs: number): Promise<void> {
    const freed = Promise.withResolvers<void>();
    const timer = setTimeout(freed.resolve, withinMs);
    this.#waiting.add(freed.resolve);
    await freed.promise;
    clearTimeout(timer);
    this.#waiting.delete(freed.resolve);
  }
}
