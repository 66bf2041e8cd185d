/**
 * Small requests to a service in a sandbox through the edge, beside nginx as a proxy to the same service; with TLS,
 * using the same certificate, and without.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { BASE_TEMPLATE } from "../../../src/contract/management/base-template.ts";
import type { CertificateFiles } from "../../../src/tls/certificate.ts";
import { LocalAuthority } from "../../../src/tls/local-authority.ts";
import { LOCAL_DOMAIN } from "../../bench-server.ts";
import { KeptConnections, type Target } from "../../clients/kept-connections.ts";
import type { Context } from "../../context.ts";
import { interleave, perSecond, summary } from "../../figures/samples.ts";
import { Nginx, speaksTls } from "../../peers/nginx.ts";
import type { Outcome, Row } from "../../row.ts";
import { BenchSandbox } from "../../sandboxes/bench-sandbox.ts";

const FILE = "small.txt";
const LOOPBACK = "127.0.0.1";
const TLS_PORT = 443;
const PROXY_PORT = 8443;
const CONNECTIONS = 32;
const REQUESTS = 1000;
/** Responses per sample. */
const ANSWERS = 50;
const PEER = "the same through nginx as the same proxy";
const TLS_PEER = "the same through nginx with TLS, with the same certificate";

export const EDGE_ROWS: readonly Row[] = [
  {
    name: "edge",
    what: "1000 small requests over 32 connections to a service in a sandbox, through the server",
    beside: { peer: PEER, ratio: "speed", bounds: { atLeast: 0.5, aim: 0.8 } },
    needs: "nginx",
    quick: true,
    run: (context) => throughput(context, false),
  },
  {
    name: "edge-latency",
    what: "one small request to a service in a sandbox, through the server, over a kept connection",
    beside: { peer: PEER, ratio: "cost", bounds: { atLeast: 2, aim: 1.25 } },
    needs: "nginx",
    run: (context) => latency(context, false),
  },
  {
    name: "edge-tls",
    what: "1000 small requests with TLS over 32 connections to a service in a sandbox, through the server",
    beside: { peer: TLS_PEER, ratio: "speed", bounds: { atLeast: 0.5, aim: 0.8 } },
    needs: "nginx",
    run: (context) => throughput(context, true),
  },
  {
    name: "edge-tls-latency",
    what: "one small request with TLS to a service in a sandbox, through the server, over a kept connection",
    beside: { peer: TLS_PEER, ratio: "cost", bounds: { atLeast: 2, aim: 1.25 } },
    needs: "nginx",
    run: (context) => latency(context, true),
  },
];

function throughput(context: Context, tls: boolean): Promise<Outcome> {
  return compare(context, CONNECTIONS, tls, async (edge, nginx, direct) => {
    const pairs = await interleave(
      context.heavyRounds,
      () => edge.askMs(REQUESTS),
      () => nginx.askMs(REQUESTS),
    );
    const rate = (ms: number) => perSecond(REQUESTS, ms).toFixed(0);
    const [ours, peer] = [summary(pairs.ours).median, summary(pairs.peer).median];
    const without = rate(await direct.askMs(REQUESTS));
    return { pairs, notes: [`${rate(ours)} requests/s, peer ${rate(peer)}; the service itself answers ${without}`] };
  });
}

function latency(context: Context, tls: boolean): Promise<Outcome> {
  return compare(context, 1, tls, async (edge, nginx, direct) => {
    const alone: number[] = [];
    const pairs = await interleave(
      context.rounds,
      async () => {
        alone.push((await direct.askMs(ANSWERS)) / ANSWERS);
        return (await edge.askMs(ANSWERS)) / ANSWERS;
      },
      async () => (await nginx.askMs(ANSWERS)) / ANSWERS,
    );
    const without = summary(alone).median;
    const added = (samples: readonly number[]) => (summary(samples).median - without).toFixed(2);
    const note = `adds ${added(pairs.ours)} ms, peer ${added(pairs.peer)} ms`;
    return { pairs, notes: [`${note}; the service itself takes ${without.toFixed(2)} ms`] };
  });
}

type Measure = (edge: KeptConnections, nginx: KeptConnections, direct: KeptConnections) => Promise<Outcome>;

async function compare(context: Context, connections: number, tls: boolean, measure: Measure): Promise<Outcome> {
  const authority = tls ? LocalAuthority.find(context.data.path) : undefined;
  if (tls && authority === undefined) return { notMeasured: "openssl is missing. FIX: apt-get install openssl" };
  await using sandbox = await BenchSandbox.make(context);
  const folder = BASE_TEMPLATE.defaultWorkdir;
  writeFileSync(join(sandbox.root, folder, FILE), "a small answer\n");
  await using service = await Nginx.startInSandbox(sandbox, folder);
  await using _proxy = await startProxy(context, authority?.files, service.url);
  const servicePort = Number(new URL(service.url).port);
  const ca = authority === undefined ? {} : { ca: readFileSync(authority.trustFile, "utf8") };
  const request = { host: `${servicePort}-${sandbox.id}.${LOCAL_DOMAIN}`, path: `/${FILE}` };
  const edgePort = tls ? TLS_PORT : Number(new URL(context.sdk.sandboxUrl).port);
  const direct: Target = { ...request, hostname: sandbox.address, port: servicePort };
  using edge = await KeptConnections.open({ ...request, ...ca, hostname: LOOPBACK, port: edgePort }, connections);
  using nginx = await KeptConnections.open({ ...request, ...ca, hostname: LOOPBACK, port: PROXY_PORT }, connections);
  using without = await KeptConnections.open(direct, connections);
  return await measure(edge, nginx, without);
}

/** nginx with a usual proxy configuration. Like the edge, it keeps no connection to the service. */
async function startProxy(context: Context, files: CertificateFiles | undefined, upstream: string): Promise<Nginx> {
  const address = `${LOOPBACK}:${PROXY_PORT}`;
  const listens = files === undefined ? [`listen ${address};`] : speaksTls(address, files);
  const pass = ["proxy_http_version 1.1;", "proxy_set_header Host $host;", `proxy_pass ${upstream};`];
  const http = [`server { ${listens.join(" ")} location / { ${pass.join(" ")} } }`];
  const url = `${files === undefined ? "http" : "https"}://${address}`;
  return await Nginx.start(context, { name: "proxy", url, http });
}
