/** A client's text in a message: in quotation marks, and cut if it is long. */
export function quoted(text: string, mostChars = 64): string {
  return JSON.stringify(text.length > mostChars ? `${text.slice(0, mostChars)}…` : text);
}
