/** Keeps the set of networks that this machine is on up to date: they change when it joins another network. */
import { readFileSync } from "node:fs";
import { described, stderrLog } from "../../base/log.ts";
import { onLinkRanges } from "../../system/net/on-link.ts";
import { replaceOnLink } from "./ruleset.ts";

/** How often the networks that the machine is on are looked at. */
const ON_LINK_REFRESH_MS = 5_000;

const ROUTES = "/proc/net/route";

export class OnLinkSet {
  readonly #table: string;
  readonly #nft: (script: string) => Promise<void>;
  #ranges: readonly string[] = [];
  #timer: Timer | undefined;

  /** `tell` hears of other networks once the set has them. */
  constructor(
    table: string,
    nft: (script: string) => Promise<void>,
    readonly tell: (ranges: readonly string[]) => Promise<void>,
  ) {
    this.#table = table;
    this.#nft = nft;
  }

  /** What the set has. */
  get ranges(): readonly string[] {
    return this.#ranges;
  }

  /** What the set is to begin with. */
  read(): readonly string[] {
    this.#ranges = onLinkRanges(readFileSync(ROUTES, "utf8"));
    return this.#ranges;
  }

  /** The set is there, with what `read` answered. */
  keepFresh(): void {
    this.#timer = setInterval(() => this.#refresh(), ON_LINK_REFRESH_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #refresh(): Promise<void> {
    try {
      const now = onLinkRanges(readFileSync(ROUTES, "utf8"));
      if (now.join() === this.#ranges.join()) return;
      await this.#nft(replaceOnLink(this.#table, now));
      await this.tell(now);
      this.#ranges = now;
    } catch (error) {
      stderrLog.write({ level: "error", event: "on-link networks could not be refreshed", error: described(error) });
    }
  }
}
