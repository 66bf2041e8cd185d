/** The forms of ids, and new ids of sandboxes. */

export const ID_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789";
/** Letters of a template id, and of a sandbox id after its `i`. */
export const ID_CHARS = 20;

/** For the pattern of a text that contains such an id. */
export const TEMPLATE_ID_PATTERN = `[a-z0-9]{${ID_CHARS}}`;
export const TEMPLATE_ID = new RegExp(`^${TEMPLATE_ID_PATTERN}$`);

/** The form that interfaces accept in requests. */
export const SANDBOX_ID = /^[a-z0-9]+$/;

/**
 * `i` and 20 random characters of [a-z0-9]. They are random because an id is enough to reach the sandbox's public
 * ports.
 */
export function newSandboxId(): string {
  const numbers = crypto.getRandomValues(new Uint32Array(ID_CHARS));
  return `i${[...numbers].map((value) => ID_LETTERS[value % ID_LETTERS.length]).join("")}`;
}
