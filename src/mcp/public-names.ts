/**
 * Public names of items from several servers. A name of only one server stays as it is. A name of several servers
 * appears once per server, prefixed with the server's name, so that the choice does not depend on a hidden order.
 */

interface Named {
  server: string;
  name: string;
}

/** Between the server's name and the item's; models accept letters, digits, dashes and underscores. */
const SEPARATOR = "__";

/** In the order of the entries. Every name is unique. */
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

/** Calls always accept this form, whether the name is ambiguous or not. */
export function prefixed(server: string, name: string): string {
  return `${server.replaceAll(/[^\w-]+/g, "_")}${SEPARATOR}${name}`;
}

function firstFree(name: string, taken: ReadonlySet<string>): string {
  if (!taken.has(name)) return name;
  let at = 2;
  while (taken.has(`${name}_${at}`)) at++;
  return `${name}_${at}`;
}
