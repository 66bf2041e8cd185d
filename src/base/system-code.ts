/** Reads the errno code, such as ENOENT, of a thrown error. */

/** The system's error code (`ENOENT`), or an empty string for other errors. */
export function systemCode(thrown: unknown): string {
  return thrown instanceof Error && "code" in thrown && typeof thrown.code === "string" ? thrown.code : "";
}
