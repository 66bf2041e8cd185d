/** Interval of keepalive messages on a silent stream. */

export const KEEPALIVE_DEFAULT_SECONDS = 90;
const KEEPALIVE_MAX_SECONDS = 86_400;

export function keepaliveMs(headers: Headers): number {
  const text = headers.get("keepalive-ping-interval") ?? "";
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  return Math.min(seconds < 1 ? KEEPALIVE_DEFAULT_SECONDS : seconds, KEEPALIVE_MAX_SECONDS) * 1000;
}
