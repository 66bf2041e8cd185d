/**
 * Network settings of a sandbox in requests and responses: outgoing traffic (egress), and access to its ports
 * (ingress). Optional fields accept null.
 */
import { z } from "zod";
import { domainPattern } from "../domain-pattern.ts";
import { quoted } from "../quoted-text.ts";
import { RUNTIME_PORT } from "../runtime/version.ts";
import { ALL_ADDRESSES, allowProblem, denyProblem, isAddressEntry } from "./egress-entry.ts";
import { headerRules, shownHeaderRules } from "./header-rules.ts";
import {
  EGRESS_ENTRIES_MAX,
  HTTPS_PORTS_MAX,
  MASK_REQUEST_HOST_MAX_CHARS,
  PORT_MAX,
  PROXY_ADDRESS_MAX_CHARS,
  PROXY_CREDENTIAL_MAX_BYTES,
} from "./limits.ts";
import { proxyAddressProblem } from "./proxy-address.ts";

/** Replaced by the port of a request. */
const PORT_PLACE = `\${PORT}`;

const egressProxy = z
  .looseObject({
    address: judged(proxyAddressProblem).max(PROXY_ADDRESS_MAX_CHARS).describe("host:port of a SOCKS5 server"),
    username: judged(credentialProblem).nullish(),
    password: judged(credentialProblem).nullish().describe("Never shown"),
    tls: z.looseObject({ enabled: z.boolean().nullish() }).nullish(),
  })
  .superRefine(({ username, password, tls }, context) => {
    if (password && !username) addIssue(context, ["password"], "has no effect without username");
    const asksForTls = tls && tls.enabled !== false && Object.keys(tls).length > 0;
    if (asksForTls) addIssue(context, ["tls"], "is not supported by this server yet; leave it out");
  });

const egress = {
  allowOut: entries(allowProblem)
    .nullish()
    .describe("Addresses, ranges and names (example.com, *.example.com, *) that are allowed even if denied"),
  denyOut: entries(denyProblem).nullish().describe("Denied addresses and ranges"),
  egressProxy: egressProxy.nullish().describe("Proxy for all allowed TCP connections; other protocols do not use it"),
  rules: headerRules.nullish().describe("Headers that the server sets on HTTPS requests, by host name"),
};

const ingress = {
  allowPublicTraffic: z.boolean().nullish().describe("False: ports require the trafficAccessToken of the response"),
  maskRequestHost: judged(maskProblem)
    .max(MASK_REQUEST_HOST_MAX_CHARS)
    .nullish()
    .describe(`Host header that services receive; ${PORT_PLACE} in it is the port`),
  httpsPorts: z
    .array(z.int().min(1).max(PORT_MAX))
    .max(HTTPS_PORTS_MAX)
    .superRefine((ports, context) => {
      if (new Set(ports).size < ports.length) addIssue(context, [], "must name each port once");
      const at = ports.indexOf(RUNTIME_PORT);
      if (at >= 0) addIssue(context, [at], `must not be ${RUNTIME_PORT}, the port of the runtime`);
    })
    .nullish()
    .describe("Ports whose services use TLS; certificates are not verified"),
};

/** Network settings of a create. */
export const network = z.looseObject({ ...egress, ...ingress }).superRefine(requireDenial);

/** Replaces the egress rules of a running sandbox. */
export const networkUpdate = z
  .object({
    ...egress,
    allow_internet_access: z
      .boolean()
      .nullish()
      .describe("False: blocks outgoing traffic except to entries of allowOut; default: unchanged"),
  })
  .superRefine(requireDenial);

export const shownNetwork = z.object({
  allowPublicTraffic: z.boolean(),
  allowOut: z.array(z.string()).optional(),
  denyOut: z.array(z.string()).optional(),
  maskRequestHost: z.string().optional(),
  egressProxy: z.object({ address: z.string(), username: z.string().optional() }).optional(),
  rules: shownHeaderRules.optional(),
  httpsPorts: z.array(z.int()).optional(),
});

export type NetworkRequest = z.infer<typeof network>;
export type NetworkUpdate = z.infer<typeof networkUpdate>;
export type ShownNetwork = z.infer<typeof shownNetwork>;

function addIssue(context: z.RefinementCtx, path: PropertyKey[], message: string): void {
  context.addIssue({ code: "custom", path, message });
}

/** A string checked by `problemOf`. */
function judged(problemOf: (text: string) => string | undefined): z.ZodString {
  return z.string().superRefine((text, context) => {
    const problem = problemOf(text);
    if (problem !== undefined) addIssue(context, [], problem);
  });
}

function entries(problemOf: (entry: string) => string | undefined) {
  return z
    .array(z.string())
    .superRefine((list, context) => {
      if (list.length > EGRESS_ENTRIES_MAX) {
        const first = quoted(list[EGRESS_ENTRIES_MAX] ?? "");
        const message = `must have at most ${EGRESS_ENTRIES_MAX} entries, got ${list.length}; ${first} is too many`;
        addIssue(context, [], message);
        return;
      }
      for (const [at, entry] of list.entries()) {
        const problem = problemOf(entry);
        if (problem !== undefined) addIssue(context, [at], `${quoted(entry)} ${problem}`);
      }
    })
    .meta({ maxItems: EGRESS_ENTRIES_MAX });
}

/** An allowed name without a denial would look like a rule, but have no effect. */
function requireDenial(
  { allowOut, denyOut }: { allowOut?: string[] | null | undefined; denyOut?: string[] | null | undefined },
  context: z.RefinementCtx,
): void {
  if (denyOut?.includes(ALL_ADDRESSES)) return;
  const name = allowOut?.find((entry) => !isAddressEntry(entry) && domainPattern(entry) !== undefined);
  if (name === undefined) return;
  addIssue(context, ["allowOut"], `has a name, ${quoted(name)}, which needs "${ALL_ADDRESSES}" in denyOut`);
}

function credentialProblem(text: string): string | undefined {
  const bytes = Buffer.byteLength(text);
  if (bytes <= PROXY_CREDENTIAL_MAX_BYTES) return undefined;
  return `must have at most ${PROXY_CREDENTIAL_MAX_BYTES} bytes, got ${bytes}`;
}

/** It becomes a header, so only a host and a port are allowed, for every port of a request. */
function maskProblem(text: string): string | undefined {
  const filled = text.replaceAll(PORT_PLACE, String(PORT_MAX));
  const [host, port] = /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([1-9]\d{0,4}))?$/.exec(filled) ?? [];
  if (text === "" || (host !== undefined && Number(port ?? 1) <= PORT_MAX)) return undefined;
  return `must be a host in ASCII, with :port if you like; ${PORT_PLACE} stands for the port of a request`;
}
