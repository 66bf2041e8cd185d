/**
 * The cost of rules that name a web site: connections to it pass the relay. The peer is a sandbox without rules that
 * connects to the same site directly. Other sites must be rejected, or the row is missed.
 */
import { throughput } from "../../clients/file-transfer.ts";
import type { Context } from "../../context.ts";
import { relayPid } from "../../figures/relay-process.ts";
import { PeakGrowth } from "../../figures/resident-memory.ts";
import { interleave, type Pairs, perSecond, summary } from "../../figures/samples.ts";
import { type Site, WebClient } from "../../peers/web-client.ts";
import { WebSite } from "../../peers/web-site.ts";
import type { Outcome, Row } from "../../row.ts";
import { BenchSandbox } from "../../sandboxes/bench-sandbox.ts";

const SITE: Site = "allowed.test";
const OTHER_SITE: Site = "other.test";
const ONLY_SITE = { allowOut: [SITE], denyOut: ["0.0.0.0/0"] };
/** Responses per sample. */
const ANSWERS = 10;
const NO_FILE = 0;
const CONNECTIONS = 200;
const TOGETHER = 16;
const HEAVY_WARM_UP_ROUNDS = 1;
/** Far less than the download, and more than the warm-up of a runtime. */
const MEMORY_GROWTH_MAX_BYTES = 64 * 1024 ** 2;
const PEER = "the same by a sandbox without rules";

export const relayFirstByte: Row = {
  name: "relay-first-byte",
  what: "first byte of an HTTPS response from a site that rules allow by name, over a new connection",
  beside: { peer: PEER, ratio: "cost", bounds: { atLeast: 3, aim: 1.5 } },
  needs: "nginx",
  run: (context) =>
    compare(context, NO_FILE, async (relayed, direct) => ({
      pairs: await interleave(
        context.rounds,
        () => relayed.answerMs(ANSWERS),
        () => direct.answerMs(ANSWERS),
      ),
    })),
};

export const relayThroughput: Row = {
  name: "relay-throughput",
  what: "an HTTPS download of 256 MiB (1 GiB with --long) from a site that rules allow by name",
  beside: { peer: PEER, ratio: "speed", bounds: { atLeast: 0.4, aim: 0.7 } },
  needs: "nginx",
  run: (context) =>
    compare(context, context.heavyBytes, async (relayed, direct, pids) => {
      const bytes = context.heavyBytes;
      const memory = new PeakGrowth(pids);
      const pairs = await interleave(
        context.heavyRounds,
        () => relayed.downloadMs(WebSite.filePath, bytes),
        () => direct.downloadMs(WebSite.filePath, bytes),
        HEAVY_WARM_UP_ROUNDS,
      );
      const { note, broken } = memory.judge(MEMORY_GROWTH_MAX_BYTES);
      return { pairs, notes: [throughput(pairs, bytes), note], broken };
    }),
};

export const relayConnections: Row = {
  name: "relay-connections",
  what: "200 HTTPS connections, 16 at a time, to a site that rules allow by name",
  beside: { peer: PEER, ratio: "speed", bounds: { atLeast: 0.4, aim: 0.7 } },
  needs: "nginx",
  run: (context) =>
    compare(context, NO_FILE, async (relayed, direct) => {
      const pairs = await interleave(
        context.heavyRounds,
        () => relayed.connectionsMs(CONNECTIONS, TOGETHER),
        () => direct.connectionsMs(CONNECTIONS, TOGETHER),
        HEAVY_WARM_UP_ROUNDS,
      );
      return { pairs, notes: [rates(pairs)] };
    }),
};

type Measure = (relayed: WebClient, direct: WebClient, pids: { server: number; relay: number }) => Promise<Outcome>;

async function compare(context: Context, fileBytes: number, measure: Measure): Promise<Outcome> {
  await using _site = await WebSite.start(context, SITE, fileBytes);
  await using ruled = await BenchSandbox.make(context, { network: ONLY_SITE });
  await using open = await BenchSandbox.make(context);
  if (await new WebClient(ruled, OTHER_SITE).reaches()) {
    return { broken: [`a sandbox that may reach ${SITE} only reaches ${OTHER_SITE}`] };
  }
  const { server } = ruled.pids;
  return await measure(new WebClient(ruled, SITE), new WebClient(open, SITE), { server, relay: relayPid(server) });
}

function rates({ ours, peer }: Pairs): string {
  const rate = (samples: readonly number[]) => perSecond(CONNECTIONS, summary(samples).median).toFixed(0);
  return `${rate(ours)} connections/s, peer ${rate(peer)}`;
}
