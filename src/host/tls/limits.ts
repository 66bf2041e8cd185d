/** Bounds of certificates and look-ups. Units come last in a name. */
import { scaled } from "../../work/time-factor.ts";

/** A certificate with its intermediates, or a key. */
export const CERTIFICATE_FILE_MAX_BYTES = 1024 * 1024;
/**
 * Of certificates that `sandlot tls` makes. Clients refuse longer ones of a server; an authority is trusted by hand, so
 * it is not to change soon.
 */
export const CERTIFICATE_DAYS = 397;
export const CERTIFICATE_RENEW_BEFORE_DAYS = 30;
export const AUTHORITY_DAYS = 3_650;
/** How long a program may take to find, or not to find, the addresses of a name. */
export const LOOKUP_MS = scaled(15_000);
