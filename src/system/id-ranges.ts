/**
 * The ranges of user ids that the sandboxes of a server have. What the kernel counts for each user of the machine
 * (epoll watches, pages of pipes, descriptors on their way) is then counted for each sandbox.
 *
 * All servers of a machine take them from one supply, in blocks: a block is a server's for as long as it has a run
 * folder, which outlives it while a sandbox of it may.
 */
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../contract/fault.ts";
import { type DataFolder, lockOfAllServers, otherServers, readText } from "./data-folder.ts";
import { HOST_ID_FIRST, ID_COUNT, type IdRange, SHARED_IDS } from "./id-range.ts";

const FILE = "id-blocks.json";
const LOCK = "ids";
const BLOCK_RANGES = 256;
/** The first range is the one that is shared; the last id of all means "none" to the kernel. */
const BLOCK_FIRST_ID = HOST_ID_FIRST + ID_COUNT;
const BLOCK_IDS = BLOCK_RANGES * ID_COUNT;
export const BLOCK_COUNT = Math.floor((0xffff_ffff - BLOCK_FIRST_ID) / BLOCK_IDS);
/** So many that were used are left to rest before one of them is used again, as long as there are unused ones. */
const RESTING = 16;

export class IdRanges {
  readonly #data: Pick<DataFolder, "runFolder" | "tag">;
  readonly #own: boolean;
  readonly #taken = new Set<number>();
  /** Free again, those that have been for longest first. */
  readonly #rested: number[] = [];
  /** Not used since this server started; the one to be used next is the last. */
  readonly #fresh: number[] = [];

  /** Without `own`, every new sandbox has the range that is shared. */
  constructor(data: Pick<DataFolder, "runFolder" | "tag">, own: boolean) {
    this.#data = data;
    this.#own = own;
    for (const block of blocksOf(data.runFolder)) this.#addBlock(block);
  }

  /** One that nobody else on this machine has. Fault 503 when there is none. */
  take(): IdRange {
    if (!this.#own) return SHARED_IDS;
    const first = this.#next();
    this.#taken.add(first);
    return { first };
  }

  /** That of a sandbox that was found, running or not. */
  adopt(first: number): void {
    this.#taken.add(first);
  }

  /** Nothing lives any more that had it. */
  free({ first }: IdRange): void {
    if (this.#taken.delete(first) && first !== HOST_ID_FIRST) this.#rested.push(first);
  }

  #next(): number {
    if (this.#rested.length > RESTING) return this.#rested.shift() ?? this.#next();
    for (let first = this.#fresh.pop(); first !== undefined; first = this.#fresh.pop()) {
      if (!this.#taken.has(first)) return first;
    }
    const rested = this.#rested.shift();
    if (rested !== undefined) return rested;
    this.#addBlock(claimBlock(this.#data));
    return this.#next();
  }

  #addBlock(block: number): void {
    const last = BLOCK_FIRST_ID + (block + 1) * BLOCK_IDS - ID_COUNT;
    this.#fresh.unshift(...Array.from({ length: BLOCK_RANGES }, (_, before) => last - before * ID_COUNT));
  }
}

/** Takes one more block for this server. */
function claimBlock({ runFolder, tag }: Pick<DataFolder, "runFolder" | "tag">): number {
  using _lock = lockOfAllServers(LOCK);
  const own = blocksOf(runFolder);
  const taken = new Set([...own, ...otherServers(tag).flatMap(blocksOf)]);
  for (let block = 0; block < BLOCK_COUNT; block++) {
    if (taken.has(block)) continue;
    const path = join(runFolder, FILE);
    // In one step: a server that is killed here must not leave half a list, which nobody could read.
    writeFileSync(`${path}.new`, JSON.stringify([...own, block]), { mode: 0o600 });
    renameSync(`${path}.new`, path);
    return block;
  }
  throw new Fault(
    503,
    `all ${BLOCK_COUNT * BLOCK_RANGES} ranges of user ids are taken by servers on this machine. ` +
      "FIX: stop one with `sandlot down`",
  );
}

function blocksOf(runFolder: string): number[] {
  const text = readText(join(runFolder, FILE));
  return text === undefined ? [] : (JSON.parse(text) as number[]);
}
