/**
 * Assigns ranges of user ids to the sandboxes of a server. The kernel's per-user limits (epoll watches, pipe pages,
 * descriptors in flight) then apply to each sandbox separately.
 *
 * All servers of a machine take ranges from one supply, in blocks. A block belongs to a server for as long as it has a
 * run folder, which outlives the server while a sandbox of it may run.
 */
import { join } from "node:path";
import { Fault } from "../contract/fault.ts";
import { type DataFolder, lockOfAllServers, otherServers, readText } from "./data-folder.ts";
import { HOST_ID_FIRST, ID_COUNT, type IdRange, SHARED_IDS } from "./id-range.ts";
import { replaceFile } from "./replace-file.ts";

const FILE = "id-blocks.json";
const LOCK = "ids";
const BLOCK_RANGES = 256;
/** The first range is the shared one; the last id of all means "none" to the kernel. */
const BLOCK_FIRST_ID = HOST_ID_FIRST + ID_COUNT;
const BLOCK_IDS = BLOCK_RANGES * ID_COUNT;
export const BLOCK_COUNT = Math.floor((0xffff_ffff - BLOCK_FIRST_ID) / BLOCK_IDS);
/** Freed ranges that rest before one is reused, as long as there are unused ones. */
const RESTING = 16;

export class IdRanges {
  readonly #taken = new Set<number>();
  /** Freed ranges, oldest first. */
  readonly #rested: number[] = [];
  /** Ranges not used since this server started; the next one to use is last. */
  readonly #fresh: number[] = [];

  /** Without `own`, every new sandbox gets the shared range. */
  constructor(
    private readonly data: Pick<DataFolder, "runFolder" | "tag">,
    private readonly own: boolean,
  ) {
    for (const block of blocksOf(data.runFolder)) this.#addBlock(block);
  }

  /** Takes a range that is unique on this machine. Throws Fault 503 when there is none. */
  take(): IdRange {
    if (!this.own) return SHARED_IDS;
    const first = this.#next();
    this.#taken.add(first);
    return { first };
  }

  /** Marks the range of a sandbox that was found, running or not. */
  adopt(first: number): void {
    this.#taken.add(first);
  }

  /** To be called when no process with these ids is left. */
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
    this.#addBlock(claimBlock(this.data));
    return this.#next();
  }

  #addBlock(block: number): void {
    const last = BLOCK_FIRST_ID + (block + 1) * BLOCK_IDS - ID_COUNT;
    this.#fresh.unshift(...Array.from({ length: BLOCK_RANGES }, (_, before) => last - before * ID_COUNT));
  }
}

function claimBlock({ runFolder, tag }: Pick<DataFolder, "runFolder" | "tag">): number {
  using _lock = lockOfAllServers(LOCK);
  const own = blocksOf(runFolder);
  const taken = new Set([...own, ...otherServers(tag).flatMap(blocksOf)]);
  for (let block = 0; block < BLOCK_COUNT; block++) {
    if (taken.has(block)) continue;
    replaceFile(join(runFolder, FILE), JSON.stringify([...own, block]));
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
