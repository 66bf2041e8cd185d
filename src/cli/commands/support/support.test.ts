import { expect, test } from "bun:test";
import { partTexts, settingsOf } from "./support.ts";

const parts = {
  "versions.txt": () => "sandlot 1, TOKEN=abcdef",
  "metrics.txt": () => Promise.reject(new Error("no server runs")),
  "log.ndjson": () => '{"path":"/Xq7planted9Zv"}',
};

test("a part that cannot be read says why, and known secrets are removed from the others", async () => {
  expect(await partTexts(parts, async () => ["Xq7planted9Zv"])).toEqual({
    "versions.txt": "sandlot 1, TOKEN=[removed]",
    "metrics.txt": expect.stringMatching(/^could not be read: Error: no server runs/),
    "log.ndjson": '{"path":"/[removed]"}',
  });
});

test("a damaged store leaves out the logs, which may hold secrets, and nothing else", async () => {
  const texts = await partTexts(parts, () => Promise.reject(new Error("the database disk image is malformed")));
  expect(texts["versions.txt"]).toBe("sandlot 1, TOKEN=[removed]");
  expect(texts["log.ndjson"]).toMatch(/^left out, because the secrets .*: Error: the database disk image is malformed/);
});

test("settings are those of the running server, else they are said to be this shell's", async () => {
  const ofServer = { SANDLOT_BUILDS: { value: "3", isSet: true } };
  expect(await settingsOf(async () => JSON.stringify(ofServer))).toEqual({
    of: "the running server",
    settings: ofServer,
  });
  expect(await settingsOf(() => Promise.reject(new Error("no server runs")))).toEqual({
    of: "this shell, because the server's could not be read: no server runs",
    settings: expect.objectContaining({ SANDLOT_BUILDS: { value: expect.any(String), isSet: expect.any(Boolean) } }),
  });
});
