/** Numbers in texts of the kernel and the host. Without expressions to match, which every boot would compile first. */
const [ZERO, NINE] = [48, 57];

/** Of digits alone, up to as many as given; undefined for anything else, such as nothing or "max". */
export function wholeNumber(text: string | undefined, digitsMax = 20): number | undefined {
  if (text === undefined || text === "" || text.length > digitsMax) return undefined;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code < ZERO || code > NINE) return undefined;
  }
  return Number(text);
}
