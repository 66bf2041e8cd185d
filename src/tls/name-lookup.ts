/**
 * Checks whether names below a domain resolve to this server in the languages of clients. Each one runs a real lookup:
 * the result depends on the machine's name service. Browsers and curl resolve names below `localhost` by themselves,
 * but Node and Python only if the name service has them.
 */
import { scaled } from "../base/time-factor.ts";
import { attempt, MINIMAL_ENV } from "../system/command.ts";

const LOOKUP_MS = scaled(15_000);

interface Lookup {
  by: string;
  /** Empty: the name is unknown. */
  addresses: string[];
}

/** Each prints the addresses of its argument, as its connections resolve them. */
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

/** The results of those programs that are installed. */
export async function lookUp(name: string): Promise<Lookup[]> {
  // Uses the caller's PATH, because these programs are often installed outside the system's.
  const PATH = process.env.PATH ?? MINIMAL_ENV.PATH ?? "";
  const there = PROGRAMS.filter(({ argv: [program = ""] }) => Bun.which(program, { PATH }) !== null);
  return await Promise.all(
    there.map(async ({ by, argv: [program = "", ...args] }) => {
      const argv = [Bun.which(program, { PATH }) ?? program, ...args, name];
      // A name server that does not reply leads to a timeout, which counts as no result.
      const result = await attempt(argv, { env: { ...MINIMAL_ENV, PATH }, timeoutMs: LOOKUP_MS }).catch(
        () => undefined,
      );
      return { by, addresses: (result?.stdout ?? "").split(/\s+/).filter((address) => address !== "") };
    }),
  );
}

/** Whether all of them resolve the name, and to this machine if the domain is local. */
export function isFound(lookups: readonly Lookup[], domain: string): boolean {
  return lookups.every(({ addresses }) => (isLocal(domain) ? addresses.includes("127.0.0.1") : addresses.length > 0));
}

export function lookupSummary(lookups: readonly Lookup[]): string {
  if (lookups.length === 0) return "neither Node nor Python is here to ask";
  return lookups.map(({ by, addresses }) => `${by} finds ${addresses.join(" and ") || "nothing"}`).join(", ");
}

/** How to make names below the domain resolve on this machine. */
export function fixOf(domain: string): string {
  if (!isLocal(domain))
    return `add a DNS record for *.${domain} with the address under which clients reach this server`;
  const without = "otherwise have your resolver answer *.localhost with 127.0.0.1; /etc/hosts has no wildcards";
  // Tested on Debian 12: Node, Python and getent resolve *.localhost at once.
  return `apt-get install libnss-myhostname (it adds "myhostname" to hosts in /etc/nsswitch.conf); ${without}`;
}

function isLocal(domain: string): boolean {
  return domain.endsWith(".localhost");
}
