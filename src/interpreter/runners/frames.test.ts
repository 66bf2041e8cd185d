import { expect, test } from "bun:test";
import { FRAME_MAX_BYTES, Frames } from "./frames.ts";

const TOKEN = "0123-token";

function received(chunks: readonly (string | Uint8Array)[]): string[] {
  const all: string[] = [];
  let text = "";
  const frames = new Frames(
    TOKEN,
    (bytes) => {
      text += Buffer.from(bytes).toString("latin1");
    },
    (json) => {
      all.push(text, `<${json}>`);
      text = "";
    },
  );
  for (const chunk of chunks) frames.take(typeof chunk === "string" ? Buffer.from(chunk) : chunk);
  frames.end();
  return [...all, text];
}

const frame = (json: string, kind = ":") => `\x1e${TOKEN}${kind}${json}\x1f`;

test("messages are separated from surrounding text", () => {
  expect(received([`a${frame("1")}b${frame("2")}${frame("3")}c`])).toEqual(["a", "<1>", "b", "<2>", "", "<3>", "c"]);
});

test("frames are parsed alike for every split", () => {
  const whole = `text\x1e\x1enone${frame('{"a":', "<")}between${frame('"\\u001f"', "+")}${frame("}", ">")}end\x1e`;
  const expected = received([whole]);
  expect(expected).toEqual(["text\x1e\x1enonebetween", '<{"a":"\\u001f"}>', "end\x1e"]);
  for (let cut = 1; cut < whole.length; cut++)
    expect(received([whole.slice(0, cut), whole.slice(cut)])).toEqual(expected);
  expect(received([...whole])).toEqual(expected);
});

test("a printed token without a message is text", () => {
  const text = `\x1e${TOKEN}${"x".repeat(FRAME_MAX_BYTES)}`;
  expect(received([text, frame("1")])).toEqual([text, "<1>", ""]);
});

test("a truncated message is dropped", () => {
  expect(received([frame("[1,", "<"), frame("2]"), frame("[3,", "<"), frame("[4,", "<"), frame("5]", ">")])).toEqual([
    "",
    "<2]>",
    "",
    "<[4,5]>",
    "",
  ]);
});
