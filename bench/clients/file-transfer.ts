/** Shared parts of the rows about large files: a file, a sandbox, a peer, and a check of memory. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { BASE_TEMPLATE } from "../../src/contract/management/base-template.ts";
import { run } from "../../src/system/command.ts";
import type { Context } from "../context.ts";
import { PeakGrowth } from "../figures/resident-memory.ts";
import { interleave, type Pairs, summary } from "../figures/samples.ts";
import { type Transfer, transferMs } from "../peers/curl.ts";
import { Nginx } from "../peers/nginx.ts";
import type { Beside, Outcome } from "../row.ts";
import { BenchSandbox } from "../sandboxes/bench-sandbox.ts";

const WARM_UP_ROUNDS = 1;
const MEMORY_GROWTH_MAX_BYTES = 40 * 1024 ** 2;
const MIB = 1024 ** 2;

export const BESIDE_NGINX: Beside = {
  peer: "curl to nginx in the same sandbox's network, on its disk",
  ratio: "speed",
  bounds: { atLeast: 0.5, aim: 0.8 },
};

interface Sides {
  ours: Transfer;
  peer: Transfer;
  /** Runs between two transfers, untimed. */
  clear?(): Promise<void>;
}

/** Paths of the file in the sandbox and on the host. */
interface Place {
  name: string;
  inSandbox: string;
  hostView: string;
  source: string;
}

export async function compareWithNginx(
  context: Context,
  sides: (sandbox: BenchSandbox, nginx: Nginx, place: Place) => Promise<Sides>,
): Promise<Outcome> {
  await using sandbox = await BenchSandbox.make(context);
  await using nginx = await Nginx.startInSandbox(sandbox, BASE_TEMPLATE.defaultWorkdir);
  return await carryFiles(context, sandbox, (place) => sides(sandbox, nginx, place));
}

/** Measures both sides alternately in the same sandbox. */
export async function carryFiles(
  context: Context,
  sandbox: BenchSandbox,
  sides: (place: Place) => Promise<Sides>,
): Promise<Outcome> {
  const name = "bench.bin";
  const inSandbox = join(BASE_TEMPLATE.defaultWorkdir, name);
  const place = { name, inSandbox, hostView: join(sandbox.root, inSandbox), source: join(context.data.path, name) };
  try {
    const { ours, peer, clear } = await sides(place);
    const memory = new PeakGrowth(sandbox.pids);
    const carry = (transfer: Transfer) => async () => {
      await clear?.();
      return await transferMs(transfer);
    };
    const pairs = await interleave(context.heavyRounds, carry(ours), carry(peer), WARM_UP_ROUNDS);
    const { note, broken } = memory.judge(MEMORY_GROWTH_MAX_BYTES);
    return { pairs, notes: [throughput(pairs, context.heavyBytes), note], broken };
  } finally {
    await rm(place.source, { force: true });
  }
}

/** Random bytes, which no compression can shorten. */
export async function makeFile(path: string, bytes: number): Promise<void> {
  await run(["dd", "if=/dev/urandom", `of=${path}`, "bs=1M", `count=${bytes / MIB}`, "status=none"]);
}

export function throughput({ ours, peer }: Pairs, bytes: number): string {
  const perSecond = (samples: number[]) => `${(bytes / MIB / (summary(samples).median / 1000)).toFixed(0)} MiB/s`;
  return `${bytes / MIB} MiB: ${perSecond(ours)}, peer ${perSecond(peer)}`;
}
