/** How often a stream without news says that it is still there. */
import { KEEPALIVE_DEFAULT_SECONDS, KEEPALIVE_MAX_SECONDS } from "../limits.ts";

export function keepaliveMs(headers: Headers): number {
  const text = headers.get("keepalive-ping-interval") ?? "";
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  return Math.min(seconds < 1 ? KEEPALIVE_DEFAULT_SECONDS : seconds, KEEPALIVE_MAX_SECONDS) * 1000;
}
