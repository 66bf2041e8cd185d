/** Isolation runtimes between a sandbox and the machine's kernel. docs/walls.md compares them. */
export const WALLS = ["crun", "runsc"] as const;

export type Wall = (typeof WALLS)[number];

export function isWall(word: string): word is Wall {
  return (WALLS as readonly string[]).includes(word);
}
