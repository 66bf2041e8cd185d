/** Points in time as the commands print them. */

export function isoTime(at: number): string {
  return new Date(at).toISOString();
}
