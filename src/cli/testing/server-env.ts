/**
 * The environment for servers of tests and benchmarks: of all settings it inherits only the cache folder, and it sets a
 * fixed resolver instead of the machine's.
 */
export function serverEnv(dataFolder: string, extra: Record<string, string> = {}): Record<string, string> {
  const inherited = Object.entries(process.env).filter(
    ([name]) => name === "SANDLOT_CACHE" || !name.startsWith("SANDLOT_"),
  );
  const env = Object.fromEntries(inherited.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
  return { ...env, SANDLOT_DATA: dataFolder, SANDLOT_RESOLVER: "9.9.9.9", ...extra };
}
