/**
 * The cost of a header rule: the relay ends TLS on both sides and asks the server for the headers of each request. The
 * peer is a sandbox whose connections to the same site pass the relay because of its name, and are not decrypted.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../../../src/contract/fault.ts";
import { throughput } from "../../clients/file-transfer.ts";
import type { Context } from "../../context.ts";
import { interleave } from "../../figures/samples.ts";
import { type Site, WebClient } from "../../peers/web-client.ts";
import { WebSite } from "../../peers/web-site.ts";
import type { Outcome, Row } from "../../row.ts";
import { BenchSandbox } from "../../sandboxes/bench-sandbox.ts";

const SITE: Site = "allowed.test";
const ONLY_SITE = { allowOut: [SITE], denyOut: ["0.0.0.0/0"] };
const RULED = { ...ONLY_SITE, rules: { [SITE]: [{ transform: { headers: { "X-Key": "a literal value" } } }] } };
/** Responses per sample. */
const ANSWERS = 10;
const KEPT_ANSWERS = 100;
const NO_FILE = 0;
const HEAVY_WARM_UP_ROUNDS = 1;
const PEER = "the same through the relay, without a rule";

export const ruleFirstByte: Row = {
  name: "rule-first-byte",
  what: "first byte of an HTTPS response from a site with a header rule, over a new connection",
  beside: { peer: PEER, ratio: "cost", bounds: { atLeast: 2, aim: 1.5 } },
  needs: "nginx",
  run: (context) =>
    compare(context, NO_FILE, async (ruled, plain) => ({
      pairs: await interleave(
        context.rounds,
        () => ruled.answerMs(ANSWERS),
        () => plain.answerMs(ANSWERS),
      ),
    })),
};

export const ruleKeptConnection: Row = {
  name: "rule-kept-connection",
  what: "an HTTPS response from a site with a header rule, over a kept connection",
  beside: { peer: PEER, ratio: "cost", bounds: { atLeast: 1.3, aim: 1.15 } },
  needs: "nginx",
  run: (context) =>
    compare(context, NO_FILE, async (ruled, plain) => ({
      pairs: await interleave(
        context.rounds,
        () => ruled.keptAnswerMs(KEPT_ANSWERS),
        () => plain.keptAnswerMs(KEPT_ANSWERS),
      ),
    })),
};

export const ruleThroughput: Row = {
  name: "rule-throughput",
  what: "an HTTPS download of 256 MiB (1 GiB with --long) from a site with a header rule",
  beside: { peer: PEER, ratio: "speed", bounds: { atLeast: 0.5, aim: 0.7 } },
  needs: "nginx",
  run: (context) =>
    compare(context, context.heavyBytes, async (ruled, plain) => {
      const bytes = context.heavyBytes;
      const pairs = await interleave(
        context.heavyRounds,
        () => ruled.downloadMs(WebSite.filePath, bytes),
        () => plain.downloadMs(WebSite.filePath, bytes),
        HEAVY_WARM_UP_ROUNDS,
      );
      return { pairs, notes: [throughput(pairs, bytes)] };
    }),
};

type Measure = (ruled: WebClient, plain: WebClient) => Promise<Outcome>;

async function compare(context: Context, fileBytes: number, measure: Measure): Promise<Outcome> {
  await using _site = await WebSite.start(context, SITE, fileBytes);
  await using ruled = await BenchSandbox.make(context, { network: RULED });
  await using plain = await BenchSandbox.make(context, { network: ONLY_SITE });
  return await measure(new WebClient(ruled, SITE, ruleAuthority(context)), new WebClient(plain, SITE));
}

/** The certificate of the server's authority. The file of the server has its key, too. */
function ruleAuthority({ data }: Context): string {
  const whole = readFileSync(join(data.path, "rules/authority.pem"), "utf8");
  const certificate = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n/.exec(whole)?.[0];
  if (certificate === undefined) throw new Fault(500, "the server has no authority for header rules");
  const path = join(data.path, "bench-rule-authority.crt");
  writeFileSync(path, certificate);
  return path;
}
