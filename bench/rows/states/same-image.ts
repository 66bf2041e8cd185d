/**
 * In rows about restores, bare CRIU restores its own images. The server's images restore faster; a note compares the
 * row with bare CRIU on those.
 */
import { type Pairs, summary } from "../../figures/samples.ts";

/** `sameImage` starts with the times of the warm-up rounds, which do not count. */
export function besideSameImage({ ours }: Pairs, sameImage: readonly number[]): string {
  const [own, same] = [summary(ours).median, summary(sameImage.slice(-ours.length)).median];
  return `beside bare criu with the very same image, ${same.toFixed(1)} ms: ${(own / same).toFixed(2)} ×`;
}
