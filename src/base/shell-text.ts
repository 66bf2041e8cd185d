/** Quotes text for a POSIX shell. */

/** Always yields exactly one word. */
export function shellQuoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

export function quotedWords(words: readonly string[]): string {
  return words.map(shellQuoted).join(" ");
}
