/** Isolation runtimes between a sandbox and the machine's kernel. docs/isolation.md compares them. */
export const RUNTIME_NAMES = ["crun", "runsc"] as const;

export type RuntimeName = (typeof RUNTIME_NAMES)[number];

export function isRuntimeName(word: string): word is RuntimeName {
  return (RUNTIME_NAMES as readonly string[]).includes(word);
}
