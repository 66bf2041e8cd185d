/**
 * Terminates TLS for a name with a header rule. The sandbox's connection leads through a pair of sockets to a second
 * flow, whose client end is the server of the sandbox's TLS and whose upstream is TLS to the site. So the TLS library
 * reads the hello that was already read here.
 *
 * The site comes first: its certificate is checked against the machine's roots, and it chooses the protocol. Then the
 * sandbox gets a certificate of the server's own authority and the very same protocol.
 */
import { ALERT_DENIED, ALERT_INTERNAL, ALERT_PROTOCOL, type HelloFacts } from "./client-hello.ts";
import { Flow } from "./flow.ts";
import { HttpFlow } from "./http-flow.ts";
import { relayHttp2 } from "./http2-flow.ts";
import { RuledHttp1, RuledSite } from "./rule-requests.ts";
import type { RuleServer } from "./rule-server.ts";
import { socketPair } from "./socket-pair.ts";

const HTTP_1 = "http/1.1";
const HTTP_2 = "h2";

interface Ruled {
  /** In lower case, without the dot of the root. */
  host: string;
  pattern: string;
  rules: RuleServer;
  /** Protocols to offer to the site. */
  offered: readonly string[];
  port: number;
}

export async function intercept(
  outer: Flow,
  { name, protocols }: HelloFacts,
  pattern: string,
  hello: Buffer,
  port: number,
): Promise<void> {
  const { sandbox } = outer;
  const { rules } = sandbox.shared;
  if (rules === undefined || protocols === undefined) return refuse(outer, ALERT_INTERNAL);
  const offered = protocols.filter((each) => each === HTTP_1 || (each === HTTP_2 && sandbox.hasRoomForHttp2));
  if (offered.length === 0 && protocols.length > 0) return refuse(outer, ALERT_PROTOCOL);
  const delayMs = sandbox.interceptedDelayMs();
  if (delayMs === undefined) {
    sandbox.reportFailure(`header rule "${pattern}": too many connections of the sandbox wait already`);
    return refuse(outer, ALERT_INTERNAL);
  }
  if (delayMs > 0) await Bun.sleep(delayMs);
  if (outer.isOver) return;
  const [near, far] = await socketPair();
  if (outer.isOver) {
    for (const end of [near, far]) end.terminate();
    return;
  }
  const inner = new Flow(sandbox, far, sandbox.shared.counted());
  inner.named = outer.named;
  inner.client.pause();
  // Once they are joined, the end of one flow ends the other.
  outer.take(near);
  const host = name.toLowerCase().replace(/\.$/, "");
  await terminate(outer, inner, hello, { host, pattern, rules, offered, port }).catch(() => cutBoth(outer, inner));
}

async function terminate(outer: Flow, inner: Flow, hello: Buffer, ruled: Ruled): Promise<void> {
  const { sandbox } = inner;
  const { host, pattern, rules, offered } = ruled;
  const report = (why: string) => sandbox.reportFailure(`header rule "${pattern}": ${why}`);
  // Both take a while.
  const signing = rules.certificate(sandbox.source, host);
  const site = await reachSite(inner, ruled);
  const certificate = await signing;
  if (inner.isOver || outer.isOver) return cutBoth(outer, inner);
  if (site === "forbidden") return end(outer, inner, ALERT_DENIED);
  if ("failure" in certificate) {
    report(`there is no certificate for ${host}: ${certificate.failure}`);
    return end(outer, inner, ALERT_INTERNAL);
  }
  const failure = "failure" in site ? site.failure : undefined;
  if (failure !== undefined) report(failure);
  const protocol = "failure" in site ? (offered.includes(HTTP_1) ? HTTP_1 : offered[0]) : site.protocol;
  const { upstream } = outer;
  upstream?.write(hello);
  outer.collect(undefined);
  if (upstream !== undefined) outer.join(upstream);
  inner.expect(sandbox.shared.bounds.helloMs);
  const accepted = await inner.client.startTls({
    isServer: true,
    key: rules.leafKeyPem,
    cert: certificate.certificatePem,
    protocols: protocol === undefined ? [] : [protocol],
  });
  if ("failure" in accepted) {
    const why = "it may pin certificates, or not read the trusted ones of the system";
    report(`a program did not accept the certificate for ${host} (${accepted.failure}): ${why}`);
    return inner.cut();
  }
  if (inner.isOver) return;
  const facts = { sandbox, rules, host, pattern, isOver: () => inner.isOver };
  const ruledSite = new RuledSite({
    ...facts,
    failure: failure === undefined ? undefined : `header rule "${pattern}": ${failure}`,
  });
  if (protocol === HTTP_2) relayHttp2(inner, ruledSite);
  else void new HttpFlow(inner, new RuledHttp1(ruledSite, inner));
}

type Site = "forbidden" | { protocol: string | undefined } | { failure: string };

async function reachSite(flow: Flow, { host, offered, port, rules: { roots } }: Ruled): Promise<Site> {
  const reached = await flow.reach({ name: host }, port);
  if (reached === "unknown") return { failure: `${host} has no IPv4 address that could be found` };
  if (reached === "silent") return { failure: `${host} does not answer` };
  if (typeof reached === "string") return "forbidden";
  const side = { isServer: false, serverName: host, rejectUnauthorized: true, protocols: offered };
  const outcome = await flow.secureUpstream(roots === undefined ? side : { ...side, ca: roots });
  return "failure" in outcome ? { failure: `the TLS connection to ${host} failed: ${outcome.failure}` } : outcome;
}

/** Needed until the flows are joined: an end that is not read yet does not learn of the other's end. */
function cutBoth(outer: Flow, inner: Flow): void {
  inner.cut();
  outer.cut();
}

function end(outer: Flow, inner: Flow, alert: Buffer): void {
  inner.cut();
  outer.disconnect();
  refuse(outer, alert);
}

function refuse(flow: Flow, alert: Buffer): void {
  flow.client.write(alert);
  flow.finish(flow.sandbox.shared.bounds.lingerMs);
}
