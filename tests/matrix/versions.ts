/** The newest release of each of the last minor versions, newest first. Pre-releases do not count. */
export function newestOfMinors(versions: readonly string[], count: number): string[] {
  const releases = versions.filter((version) => /^\d+\.\d+\.\d+$/.test(version)).sort(byNumbers);
  const newest = new Map(releases.map((version) => [version.replace(/\.\d+$/, ""), version]));
  return [...newest.values()].reverse().slice(0, count);
}

function byNumbers(a: string, b: string): number {
  const [left, right] = [a.split(".").map(Number), b.split(".").map(Number)];
  const at = left.findIndex((number, index) => number !== right[index]);
  return (left[at] ?? 0) - (right[at] ?? 0);
}
