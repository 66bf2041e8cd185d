/** What a sandbox calls itself. A copy of another one is a machine of its own, and has a name of its own. */
export const HOSTNAME = "e2b.local";

export function hostnameOfCopy(id: string): string {
  return `${id}.${HOSTNAME}`;
}
