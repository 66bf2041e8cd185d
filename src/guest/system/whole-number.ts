/** Parses numbers in texts from the kernel and the host. */

/** Accepts only digits, at most `digitsMax`; undefined for anything else, such as nothing or "max". */
export function wholeNumber(text: string | undefined, digitsMax = 20): number | undefined {
  return text !== undefined && text.length <= digitsMax && /^[0-9]+$/.test(text) ? Number(text) : undefined;
}
