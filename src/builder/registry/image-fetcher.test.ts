/** A caller that asked for an image already on disk still finds it, even if a collection runs meanwhile. */
import { expect, test } from "bun:test";
import { Leases } from "../../base/leases.ts";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import type { GuestCommands } from "../../sandbox/guest-link/guest-commands.ts";
import { type FetchFor, ImageFetcher } from "./image-fetcher.ts";
import { imageArchitecture } from "./manifest.ts";

const BLOB = { digest: `sha256:${"ab".repeat(32)}`, size: 1 };
const MANIFEST = JSON.stringify({ schemaVersion: 2, config: BLOB, layers: [BLOB] });
const CONFIG = JSON.stringify({ os: "linux", architecture: imageArchitecture(), config: {} });
const folder = folderOfFile("fetcher");

/** The tools of a sandbox. */
const commands = {
  async run({ argv }: { argv: readonly string[] }, take: (chunk: Uint8Array, from: "stdout") => void) {
    if (argv.includes("inspect")) take(Buffer.from(argv.includes("--config") ? CONFIG : MANIFEST), "stdout");
    return { exitCode: 0, signal: "" };
  },
  upload: async () => undefined,
} as unknown as GuestCommands;

// Guards against the removal of an image of a failed build with which another build begins.
test("an image on disk is not collected while its fetch sandbox ends", async () => {
  const holds = new Leases();
  const there = new Set<string>();
  let whenItEnds = async () => undefined as unknown;
  const fetcher = new ImageFetcher({
    boot: async () => ({
      commands,
      open: async () => undefined,
      traffic: () => 0,
      withDisk: (use) => use("disk.img"),
      [Symbol.asyncDispose]: async () => void (await whenItEnds()),
    }),
    images: { has: (name) => there.has(name), add: async (name) => void there.add(name) },
    folder,
    templates: {},
    local: {},
    registries: [],
    authorities: [],
    cache: undefined,
    questionMaxMs: 60_000,
    stalledMaxMs: 60_000,
  });
  const fetchFor = async (needed: DisposableStack) => {
    const need: FetchFor = {
      signal: new AbortController().signal,
      say: () => undefined,
      hold: (image) => void needed.use(holds.hold(image)),
    };
    return (await fetcher.fetch({ image: "registry.test/app:1", credentials: null }, need)).image;
  };
  const collect = async () => {
    using watch = holds.watch();
    await Bun.sleep(1);
    for (const name of there) if (!watch.seen.has(name)) there.delete(name);
  };
  using first = new DisposableStack();
  const image = await fetchFor(first);
  first.dispose();
  whenItEnds = collect;
  using second = new DisposableStack();
  expect(await fetchFor(second)).toBe(image);
  expect([...there]).toEqual([image]);
  second.dispose();
  await collect();
  expect([...there]).toEqual([]);
});
