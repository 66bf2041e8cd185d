/**
 * Requests to a guest. Root in a sandbox can respond in the guest's place, so a request follows no redirect, its
 * response is not decompressed, its signal bounds the time, and `boundedText` bounds the body. `fetch` itself bounds
 * the response's head.
 */
import { Fault } from "../../contract/fault.ts";
import { GUEST_ANSWER_MAX_BYTES } from "../limits.ts";

interface GuestAddress {
  address: string;
  port: number;
}

export function fetchGuest(
  { address, port }: GuestAddress,
  path: string,
  request: Omit<BunFetchRequestInit, "signal"> & { signal: AbortSignal },
): Promise<Response> {
  return fetch(`http://${address}:${port}${path}`, {
    ...request,
    redirect: "manual",
    decompress: false,
    // Other sandboxes reuse the address: a kept connection could reach the wrong one.
    keepalive: false,
  });
}

/** Whether a timeout ended the call; other failures, such as a refused connection, come at once. */
export function isTimeout(cause: unknown): boolean {
  return cause instanceof Error && cause.name === "TimeoutError";
}

/** The JSON object in a guest's text; undefined: anything else. */
export function jsonObject(text: string): Record<string, unknown> | undefined {
  try {
    const json: unknown = JSON.parse(text);
    const isObject = typeof json === "object" && json !== null && !Array.isArray(json);
    return isObject ? (json as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** A response of a guest's usual size. */
export async function boundedText(response: Response, maxBytes = GUEST_ANSWER_MAX_BYTES): Promise<string> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    // Leaving the loop cancels the rest.
    if (text.length > maxBytes) throw new Fault(500, `the guest sent more than ${maxBytes} bytes`);
  }
  return text;
}
