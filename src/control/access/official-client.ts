/**
 * Whether a request claims to come from an official client. Any client can claim that, so nothing may depend on it that
 * does harm when the claim is false.
 */
export function isOfficialClient(headers: Headers): boolean {
  return headers.get("publisher") === "e2b" && (headers.get("package_version") ?? "").trim() !== "";
}
