/**
 * Under which names clients see what several servers have. A name that only one server has stays as it is. One that
 * several have is there once for each, with the name of its server in front: which of them is meant does not depend on
 * an order that nobody sees.
 */

interface Named {
  server: string;
  name: string;
}

/** Between the server's name and the other one; models accept letters, digits, dashes and underscores. */
const SEPARATOR = "__";

/** In the order of the entries. Every name is there once. */
export function publicNames(entries: readonly Named[]): string[] {
  const owners = Map.groupBy(entries, ({ name }) => name);
  const taken = new Set([...owners].filter(([, all]) => all.length === 1).map(([name]) => name));
  return entries.map(({ server, name }) => {
    if (owners.get(name)?.length === 1) return name;
    const free = firstFree(prefixed(server, name), taken);
    taken.add(free);
    return free;
  });
}

/** Always understood in a call, whether another server has the same name or not. */
export function prefixed(server: string, name: string): string {
  return `${server.replaceAll(/[^\w-]+/g, "_")}${SEPARATOR}${name}`;
}

function firstFree(name: string, taken: ReadonlySet<string>): string {
  if (!taken.has(name)) return name;
  let at = 2;
  while (taken.has(`${name}_${at}`)) at++;
  return `${name}_${at}`;
}
