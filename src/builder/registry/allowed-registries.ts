/**
 * Registries that builds may reach although they are in a private network, or speak no TLS. The operator names them;
 * a tenant cannot.
 */
import { lookup } from "node:dns/promises";
import { isIPv4 } from "node:net";
import { Fault } from "../../contract/fault.ts";

export interface AllowedRegistry {
  /** As in the name of an image: `registry.example` or `registry.example:5000`. */
  name: string;
  tls: boolean;
}

/** One way through the walls of one sandbox. */
export interface Way {
  address: string;
  port: number;
}

const HTTP_PORT = 80;
const HTTPS_PORT = 443;

/** `registry.example:5000 http://10.0.0.5:5000 …`. Fault 400 that says what is wrong with it. */
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

/** The addresses of a registry as this machine knows them, for whoever lets a sandbox reach them. */
export async function waysTo({ name, tls }: AllowedRegistry): Promise<{ host: string; ways: Way[] }> {
  const [host = "", port] = name.split(":");
  const number = port === undefined ? (tls ? HTTPS_PORT : HTTP_PORT) : Number(port);
  if (isIPv4(host)) return { host, ways: [{ address: host, port: number }] };
  const found = await lookup(host, { all: true, family: 4 }).catch((cause) => {
    throw new Fault(422, `the registry ${name} has no IPv4 address that this machine could find`, { cause });
  });
  return { host, ways: found.map(({ address }) => ({ address, port: number })) };
}
