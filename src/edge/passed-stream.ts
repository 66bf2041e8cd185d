/** What all streams of bytes that the edge passes on have in common. */

export const UNBUFFERED = { highWaterMark: 0 };

/** Without a reason: Bun.serve prints one to stderr, stack and all, and any sandbox can cause it at will. */
export function breakOff(controller: ReadableStreamDefaultController): void {
  controller.error();
}
