/**
 * What bare CRIU restores in the rows about restores is what it wrote itself. The server's image takes less to restore;
 * a note says how a row stands beside bare CRIU with that.
 */
import { type Pairs, summary } from "../../figures/samples.ts";

/** Of these times, those of the rounds that do not count are the first. */
export function besideSameImage({ ours }: Pairs, sameImage: readonly number[]): string {
  const [own, same] = [summary(ours).median, summary(sameImage.slice(-ours.length)).median];
  return `beside bare criu with the very same image, ${same.toFixed(1)} ms: ${(own / same).toFixed(2)} ×`;
}
