import { expect, test } from "bun:test";
import {
  ContentQuota,
  VOLUME_CONTENT_RETRY_AFTER_SECONDS,
  VOLUME_CONTENTS_PER_TEAM_MAX,
  withPlace,
} from "./content-quota.ts";

const volume = (number: number, teamId = "team-1") => ({ id: `volume-${number}`, teamId });

/** As many volumes as a team may work on. */
function full(): { places: ContentQuota; held: Disposable[] } {
  const places = new ContentQuota();
  return { places, held: Array.from({ length: VOLUME_CONTENTS_PER_TEAM_MAX }, (_, at) => places.take(volume(at))) };
}

test("a team uses a bounded number of volumes at once, each without limit, and blocks no other team", () => {
  const { places, held } = full();
  expect(() => places.take(volume(99))).toThrow(
    expect.objectContaining({
      status: 429,
      message: expect.stringContaining(`at most ${VOLUME_CONTENTS_PER_TEAM_MAX}`),
      headers: { "Retry-After": String(VOLUME_CONTENT_RETRY_AFTER_SECONDS) },
    }),
  );
  places.take(volume(99, "team-2"));
  const again = places.take(volume(0));
  held[0]?.[Symbol.dispose]();
  held[0]?.[Symbol.dispose]();
  expect(() => places.take(volume(99))).toThrow();
  again[Symbol.dispose]();
  places.take(volume(99));
});

test.each([
  ["read to its end", async (stream: ReadableStream) => void (await new Response(stream).text())],
  ["given up", async (stream: ReadableStream) => await stream.cancel()],
])("a download that is %s gives its place back", async (_, finish) => {
  const { places, held } = full();
  const stream = withPlace(new Blob(["content"]).stream(), held[0] ?? places.take(volume(0)));
  expect(() => places.take(volume(99))).toThrow();
  await finish(stream);
  places.take(volume(99));
});

test("an interrupted download gives its place back", async () => {
  const { places, held } = full();
  const broken = new ReadableStream<Uint8Array>({ pull: (controller) => controller.error(new Error("gone")) });
  const stream = withPlace(broken, held[0] ?? places.take(volume(0)));
  await expect(stream.getReader().read()).rejects.toBeUndefined();
  places.take(volume(99));
});
