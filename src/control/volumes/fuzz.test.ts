/** Fuzzes volume tokens: a changed token is invalid. */
import { expect } from "bun:test";
import { fuzzText, orRefused } from "../../base/testing/fuzz.ts";
import { VolumeTokens } from "./volume-tokens.ts";

const NOW = Date.parse("2027-01-15T08:00:00Z");
const tokens = new VolumeTokens(new Uint8Array(32).fill(7));
const volume = { id: "0f8fad5b-d9cb-469f-a165-70867728950e", teamId: "7c9e6679-7425-40de-944b-e07fc1f90ae7" };
const good = tokens.make(volume, NOW);
const foreign = new VolumeTokens(new Uint8Array(32)).make(volume, NOW);
const [, claims = ""] = good.split(".");
const unsigned = Buffer.from('{"alg":"none"}').toString("base64url");

fuzzText("a token gives access to its volume only if it is unchanged", {
  seeds: [good, foreign, `${unsigned}.${claims}.`, `${claims}.${claims}.${claims}`],
  check(token) {
    const opened = orRefused(() => tokens.read(token, NOW + 1000), [401]);
    expect([token, opened]).toEqual([
      token,
      token === good ? { volumeId: volume.id, teamId: volume.teamId } : undefined,
    ]);
    expect(orRefused(() => tokens.read(token, NOW + 2 * 3_600_000), [401])).toBeUndefined();
  },
});
