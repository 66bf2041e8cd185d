/** Numbers in texts of the kernel and the host. */

/** Of digits alone, up to as many as given; undefined for anything else, such as nothing or "max". */
export function wholeNumber(text: string | undefined, digitsMax = 20): number | undefined {
  return text !== undefined && text.length <= digitsMax && /^[0-9]+$/.test(text) ? Number(text) : undefined;
}
