/**
 * A client in a sandbox's network that connects to a web site of the benchmark's internet. It runs outside of the
 * sandbox, so that its start costs no more than on the host, and it needs no DNS.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../../src/contract/fault.ts";
import { INTERNET_PORTS, SITES } from "../../src/host/testing/outer-network.ts";
import { run } from "../../src/system/command.ts";
import { summary } from "../figures/samples.ts";
import type { BenchSandbox } from "../sandboxes/bench-sandbox.ts";
import type { Connected, ConnectTask } from "./connect-program.ts";
import { transferMs } from "./curl.ts";

export type Site = keyof typeof SITES;

const CONNECT_PROGRAM = join(import.meta.dir, "connect-program.ts");
const CONNECT_MS = 120_000;

export class WebClient {
  readonly #enter: readonly string[];
  readonly #authority: string;

  /** `authority`: the certificate to trust instead of that of the site. */
  constructor(
    sandbox: BenchSandbox,
    readonly site: Site,
    authority = sandbox.context.authority,
  ) {
    this.#enter = ["nsenter", `--net=/proc/${sandbox.pids.guest}/ns/net`, "--"];
    this.#authority = authority;
  }

  /** The median time of this many small responses, one after the other, on one connection. */
  async keptAnswerMs(count: number): Promise<number> {
    const { eachMs } = await this.#connect(count, 1, true);
    return summary(eachMs).median;
  }

  /** The median time of this many small responses, one after the other, each on a new connection. */
  async answerMs(count: number): Promise<number> {
    const { eachMs } = await this.#connect(count, 1);
    return summary(eachMs).median;
  }

  /** Opens this many connections with this concurrency, each for one small response. */
  async connectionsMs(count: number, together: number): Promise<number> {
    const { allMs } = await this.#connect(count, together);
    return allMs;
  }

  async downloadMs(path: string, bytes: number): Promise<number> {
    const known = ["--resolve", `${this.site}:${INTERNET_PORTS.https}:${SITES[this.site]}`];
    const options = ["--http1.1", "--cacert", this.#authority, ...known];
    return await transferMs({ method: "GET", url: `https://${this.site}${path}`, bytes, enter: this.#enter, options });
  }

  /** Whether the site responds at all. */
  async reaches(): Promise<boolean> {
    try {
      await this.#connect(1, 1);
      return true;
    } catch {
      return false;
    }
  }

  async #connect(count: number, together: number, kept = false): Promise<Connected> {
    const task: ConnectTask = {
      target: {
        hostname: SITES[this.site],
        port: INTERNET_PORTS.https,
        host: this.site,
        path: "/",
        ca: readFileSync(this.#authority, "utf8"),
      },
      count,
      together,
      kept,
    };
    const argv = [...this.#enter, process.execPath, CONNECT_PROGRAM];
    const connected = JSON.parse(await run(argv, { stdin: JSON.stringify(task), timeoutMs: CONNECT_MS })) as Connected;
    if (connected.eachMs.length !== count) throw new Fault(500, `${connected.eachMs.length} of ${count} connections`);
    return connected;
  }
}
