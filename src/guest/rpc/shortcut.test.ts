/** Envelopes of a service among those of the library: in order, only on request, without waiting forever. */
import { expect, test } from "bun:test";
import { Shortcut } from "./shortcut.ts";

const piece = (text: string) => new TextEncoder().encode(text);
const text = (bytes: Uint8Array | undefined) => new TextDecoder().decode(bytes);

/** A source that is given its pieces by hand. */
class Given {
  readonly waiting: string[] = [];
  readonly #shortcut: Shortcut;

  constructor(shortcut: Shortcut) {
    this.#shortcut = shortcut;
  }

  open(): void {
    this.#shortcut.open(() => {
      const next = this.waiting.shift();
      return next === undefined ? undefined : piece(next);
    });
  }

  give(...texts: string[]): void {
    this.waiting.push(...texts);
    this.#shortcut.ready();
  }
}

type Next = ReturnType<Shortcut["merged"]>;

async function read(next: Next): Promise<string> {
  const texts: string[] = [];
  for (let one = await next(); one !== undefined; one = await next()) texts.push(text(one));
  return texts.join(" ");
}

test("envelopes of library and service keep their order", async () => {
  const shortcut = new Shortcut();
  const given = new Given(shortcut);
  given.waiting.push("one");
  async function* service() {
    yield piece("start");
    given.open();
    given.give("two");
    await Bun.sleep(1);
    yield piece("keepalive");
    given.give("three");
    await Bun.sleep(1);
    yield piece("end");
  }
  expect(await read(shortcut.merged(service()))).toBe("start one two keepalive three end");
});

test("waiting envelopes are delivered at once, and only on request", async () => {
  const shortcut = new Shortcut();
  const given = new Given(shortcut);
  async function* service() {
    yield piece("start");
    given.open();
    await Promise.withResolvers<void>().promise;
  }
  const next = shortcut.merged(service());
  expect(text(await next())).toBe("start");
  const late = next();
  given.give("one", "two", "three");
  expect(text(await late)).toBe("one");
  expect(given.waiting).toEqual(["two", "three"]);
  expect(next()).toEqual(piece("two"));
  expect(given.waiting).toEqual(["three"]);
});

test("a failure of the library comes after earlier envelopes", async () => {
  const shortcut = new Shortcut();
  const given = new Given(shortcut);
  // biome-ignore lint/correctness/useYield: it fails before it has made anything.
  async function* service(): AsyncGenerator<Uint8Array> {
    given.open();
    given.give("one");
    throw new Error("broken");
  }
  const next = shortcut.merged(service());
  expect(text(await next())).toBe("one");
  await expect((async () => await next())()).rejects.toThrow("broken");
});

test("a source is not read for a disconnected client", async () => {
  const shortcut = new Shortcut();
  const given = new Given(shortcut);
  async function* service() {
    given.open();
    shortcut.close();
    given.give("lost");
    yield piece("end");
  }
  expect(await read(shortcut.merged(service()))).toBe("end");
  expect(given.waiting).toEqual(["lost"]);
});
