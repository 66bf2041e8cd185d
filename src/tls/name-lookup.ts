/**
 * Whether names below a domain lead to this server for the programs that clients are written in. Each is really asked:
 * what they find depends on the machine's name service, and names below `localhost` are known to browsers and curl by
 * themselves, but to Node and Python only if the name service has them.
 */

import { scaled } from "../base/time-factor.ts";
import { attempt, MINIMAL_ENV } from "../system/command.ts";

/** How long a program may take to find, or not to find, the addresses of a name. */
const LOOKUP_MS = scaled(15_000);

interface Lookup {
  by: string;
  /** Empty: the name is not known. */
  addresses: string[];
}

/** Each prints the addresses of its argument, as its connections find them. */
const PROGRAMS: readonly { by: string; argv: readonly string[] }[] = [
  {
    by: "Node",
    argv: [
      "node",
      "-e",
      "require('dns').lookup(process.argv[1],{all:true},(e,a)=>e||require('fs').writeSync(1,a.map(x=>x.address).join(' ')))",
    ],
  },
  {
    by: "Python",
    argv: [
      "python3",
      "-c",
      "import socket,sys\ntry: print(*{a[4][0] for a in socket.getaddrinfo(sys.argv[1],443)})\nexcept OSError: pass",
    ],
  },
];

/** What those of the programs that are on this machine find. */
export async function lookUp(name: string): Promise<Lookup[]> {
  // As the person at the terminal has it: these are often installed beside the system's own.
  const PATH = process.env.PATH ?? MINIMAL_ENV.PATH ?? "";
  const there = PROGRAMS.filter(({ argv: [program = ""] }) => Bun.which(program, { PATH }) !== null);
  return await Promise.all(
    there.map(async ({ by, argv: [program = "", ...args] }) => {
      const argv = [Bun.which(program, { PATH }) ?? program, ...args, name];
      // A name server that does not answer takes its time, and is no answer.
      const said = await attempt(argv, { env: { ...MINIMAL_ENV, PATH }, timeoutMs: LOOKUP_MS }).catch(() => undefined);
      return { by, addresses: (said?.stdout ?? "").split(/\s+/).filter((address) => address !== "") };
    }),
  );
}

/** Whether all of them find it, and on this machine if the domain is meant for it alone. */
export function isFound(lookups: readonly Lookup[], domain: string): boolean {
  return lookups.every(({ addresses }) => (isLocal(domain) ? addresses.includes("127.0.0.1") : addresses.length > 0));
}

export function described(lookups: readonly Lookup[]): string {
  if (lookups.length === 0) return "neither Node nor Python is here to ask";
  return lookups.map(({ by, addresses }) => `${by} finds ${addresses.join(" and ") || "nothing"}`).join(", ");
}

/** What makes names below the domain known to this machine. */
export function fixOf(domain: string): string {
  if (!isLocal(domain))
    return `add a DNS record for *.${domain} with the address under which clients reach this server`;
  const without = "otherwise have your resolver answer *.localhost with 127.0.0.1; /etc/hosts has no wildcards";
  // Tried on Debian 12: Node, Python and getent find *.localhost at once.
  return `apt-get install libnss-myhostname (it adds "myhostname" to hosts in /etc/nsswitch.conf); ${without}`;
}

function isLocal(domain: string): boolean {
  return domain.endsWith(".localhost");
}
