/**
 * Sandbox ids: `i` and 20 random characters of [a-z0-9]. They are random because an id is enough to reach the sandbox's
 * public ports.
 */
const LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789";
const LENGTH = 20;

/** The form that interfaces accept in requests. */
export const SANDBOX_ID = /^[a-z0-9]+$/;

export function newSandboxId(): string {
  const numbers = crypto.getRandomValues(new Uint32Array(LENGTH));
  return `i${[...numbers].map((value) => LETTERS[value % LETTERS.length]).join("")}`;
}
