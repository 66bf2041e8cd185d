/** Converts the network fields of a request into the stored form, without absent fields. */
import type { NetworkRequest, NetworkUpdate } from "../../contract/management/network.ts";
import { readProxyAddress } from "../../contract/management/proxy-address.ts";
import type { EgressSettings, SandboxNetwork } from "../../store/sandboxes.ts";

export function networkIn(given: NetworkRequest): SandboxNetwork {
  const { allowPublicTraffic, maskRequestHost, httpsPorts } = given;
  return {
    ...egressIn(given),
    ...(allowPublicTraffic == null ? {} : { allowPublicTraffic }),
    ...(maskRequestHost ? { maskRequestHost } : {}),
    ...(httpsPorts == null ? {} : { httpsPorts }),
  };
}

export function egressIn({ allowOut, denyOut, egressProxy }: NetworkRequest | NetworkUpdate): EgressSettings {
  return {
    ...(allowOut == null ? {} : { allowOut }),
    ...(denyOut == null ? {} : { denyOut }),
    ...(egressProxy == null ? {} : { egressProxy: proxyIn(egressProxy) }),
  };
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
