/**
 * The environment in which tests and benchmarks start a server: of our settings only the cache folder is inherited, and
 * no real name server is asked.
 */
export function serverEnv(dataFolder: string, extra: Record<string, string> = {}): Record<string, string> {
  const inherited = Object.entries(process.env).filter(
    ([name]) => name === "SANDLOT_CACHE" || !name.startsWith("SANDLOT_"),
  );
  const env = Object.fromEntries(inherited.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
  return { ...env, SANDLOT_DATA: dataFolder, SANDLOT_RESOLVER: "9.9.9.9", ...extra };
}
