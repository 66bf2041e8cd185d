/** Registries in private networks or without TLS that builds may reach. Only the operator can add them. */
import { lookup } from "node:dns/promises";
import { isIPv4 } from "node:net";
import { Fault } from "../../contract/fault.ts";

export interface AllowedRegistry {
  /** As in an image name: `registry.example` or `registry.example:5000`. */
  name: string;
  tls: boolean;
}

/** One address and port opened for one sandbox. */
export interface RegistryRoute {
  address: string;
  port: number;
}

const HTTP_PORT = 80;
const HTTPS_PORT = 443;

/** Parses `registry.example:5000 http://10.0.0.5:5000 …`. Fault 400 explains what is wrong. */
export function parseRegistries(text: string): AllowedRegistry[] {
  return text
    .split(/\s+/)
    .filter((word) => word !== "")
    .map((word) => {
      const [, scheme, name = "", , port] = /^(https?:\/\/)?([a-z0-9]([a-z0-9.-]*)(?::(\d{1,5}))?)$/.exec(word) ?? [];
      if (name === "" || (port !== undefined && !(Number(port) >= 1 && Number(port) <= 65_535))) {
        throw new Fault(400, `registries: "${word}" must look like registry.example:5000 or http://10.0.0.5:5000`);
      }
      return { name, tls: scheme !== "http://" };
    });
}

/** Resolves a registry's addresses on this host, to open them for a sandbox. */
export async function routesTo({ name, tls }: AllowedRegistry): Promise<{ host: string; ways: RegistryRoute[] }> {
  const [host = "", port] = name.split(":");
  const number = port === undefined ? (tls ? HTTPS_PORT : HTTP_PORT) : Number(port);
  if (isIPv4(host)) return { host, ways: [{ address: host, port: number }] };
  const found = await lookup(host, { all: true, family: 4 }).catch((cause) => {
    throw new Fault(422, `the registry ${name} has no IPv4 address that this machine could find`, { cause });
  });
  return { host, ways: found.map(({ address }) => ({ address, port: number })) };
}
