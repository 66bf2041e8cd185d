/** What can stand between a sandbox and the machine's kernel. docs/walls.md says what each costs and stops. */
export const WALLS = ["crun", "runsc"] as const;

export type Wall = (typeof WALLS)[number];

export function isWall(word: string): word is Wall {
  return (WALLS as readonly string[]).includes(word);
}
