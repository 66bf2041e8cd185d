/**
 * The environment for servers of tests and benchmarks: it inherits only the cache folder of all settings, and names a
 * resolver address so that no real name server is used.
 */
export function serverEnv(dataFolder: string, extra: Record<string, string> = {}): Record<string, string> {
  const inherited = Object.entries(process.env).filter(
    ([name]) => name === "SANDLOT_CACHE" || !name.startsWith("SANDLOT_"),
  );
  const env = Object.fromEntries(inherited.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
  return { ...env, SANDLOT_DATA: dataFolder, SANDLOT_RESOLVER: "9.9.9.9", ...extra };
}
