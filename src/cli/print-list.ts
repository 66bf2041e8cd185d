/** Prints the lines of a command. If a list is empty, standard error says so: scripts count no line. */
export function printList(lines: readonly string[], ifEmpty?: string): void {
  for (const line of lines) console.log(line);
  if (lines.length === 0 && ifEmpty !== undefined) console.error(ifEmpty);
}
