/**
 * Whether a request says that it comes from an official client of the interface. Anybody can say so: nothing may depend
 * on it that does harm when it is not true.
 */
export function isOfficialClient(headers: Headers): boolean {
  return headers.get("publisher") === "e2b" && (headers.get("package_version") ?? "").trim() !== "";
}
