/** Text for a POSIX shell. */

/** One word, whatever is in it. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

export function quotedWords(words: readonly string[]): string {
  return words.map(quoted).join(" ");
}
