/** Text from others for a terminal: none of its characters may control the terminal or reorder what it shows. */

export function printable(text: string): string {
  return text.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, "?");
}
