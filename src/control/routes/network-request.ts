/** Converts the network fields of a request into the stored form, without absent fields. */
import { domainPattern } from "../../contract/domain-pattern.ts";
import { Fault } from "../../contract/fault.ts";
import type { CreateSandboxV2 } from "../../contract/management/create-sandbox.ts";
import { type HeaderRule, partsOf } from "../../contract/management/header-rules.ts";
import type { NetworkRequest, NetworkUpdate } from "../../contract/management/network.ts";
import { readProxyAddress } from "../../contract/management/proxy-address.ts";
import { quoted } from "../../contract/quoted-text.ts";
import type { EgressSettings, Sandbox, SandboxNetwork } from "../../store/sandboxes.ts";

type StoredRule = NonNullable<EgressSettings["rules"]>[string][number];

export function networkIn(given: NetworkRequest): SandboxNetwork {
  const { allowPublicTraffic, maskRequestHost, httpsPorts } = given;
  return {
    ...egressIn(given),
    ...(allowPublicTraffic == null ? {} : { allowPublicTraffic }),
    ...(maskRequestHost ? { maskRequestHost } : {}),
    ...(httpsPorts == null ? {} : { httpsPorts }),
  };
}

export function egressIn({ allowOut, denyOut, egressProxy, rules }: NetworkRequest | NetworkUpdate): EgressSettings {
  const names = Object.entries(rules ?? {});
  return {
    ...(allowOut == null ? {} : { allowOut }),
    ...(denyOut == null ? {} : { denyOut }),
    ...(egressProxy == null ? {} : { egressProxy: proxyIn(egressProxy) }),
    ...(names.length === 0
      ? {}
      : { rules: Object.fromEntries(names.map(([name, sent]) => [normal(name), sent.map(ruleIn)])) }),
  };
}

/** Fault 400 for a rule that refers to an identity token that the sandbox does not have. */
export function requireTokens(
  { rules = {} }: EgressSettings,
  tokens: Readonly<Record<string, unknown>>,
  field: string,
): void {
  for (const [name, sent] of Object.entries(rules)) {
    const missing = partsOf(sent).find((part) => "token" in part && !Object.hasOwn(tokens, part.token));
    if (missing === undefined || !("token" in missing)) continue;
    const token = quoted(missing.token);
    throw new Fault(
      400,
      `validation error: ${field}.${name} refers to the identity token ${token}, which iam.tokens of the create does not name`,
    );
  }
}

export function identityTokensIn(iam: CreateSandboxV2["iam"]): Sandbox["identityTokens"] {
  return Object.fromEntries(Object.entries(iam?.tokens ?? {}).map(([name, { audience }]) => [name, { audience }]));
}

function normal(name: string): string {
  return domainPattern(name) ?? name;
}

/** As sent, without unknown and empty fields. */
function ruleIn({ transform }: HeaderRule): StoredRule {
  if (transform == null) return {};
  return { transform: transform.headers == null ? {} : { headers: transform.headers } };
}

function proxyIn({
  address,
  username,
  password,
}: NonNullable<NetworkRequest["egressProxy"]>): NonNullable<EgressSettings["egressProxy"]> {
  const read = readProxyAddress(address);
  return {
    address: read === undefined ? address : `${read.host}:${read.port}`,
    ...(username ? { username } : {}),
    ...(password ? { password } : {}),
  };
}
