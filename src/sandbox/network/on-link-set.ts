/** Keeps the nftables set of directly connected networks current; it changes when the machine joins another network. */
import { readFileSync } from "node:fs";
import { described, stderrLog } from "../../base/log.ts";
import { onLinkRanges } from "../../system/net/on-link.ts";
import { replaceOnLink } from "./ruleset.ts";

const ON_LINK_REFRESH_MS = 5_000;

const ROUTES = "/proc/net/route";

export class OnLinkSet {
  #ranges: readonly string[] = [];
  #timer: Timer | undefined;

  /** `tell` is called with the new networks once the set has them. */
  constructor(
    private readonly table: string,
    private readonly nft: (script: string) => Promise<void>,
    readonly onChange: (ranges: readonly string[]) => Promise<void>,
  ) {}

  get ranges(): readonly string[] {
    return this.#ranges;
  }

  read(): readonly string[] {
    this.#ranges = onLinkRanges(readFileSync(ROUTES, "utf8"));
    return this.#ranges;
  }

  /** To be called once the set exists with the ranges that `read` returned. */
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
      await this.nft(replaceOnLink(this.table, now));
      await this.onChange(now);
      this.#ranges = now;
    } catch (error) {
      stderrLog.write({ level: "error", event: "on-link networks could not be refreshed", error: described(error) });
    }
  }
}
