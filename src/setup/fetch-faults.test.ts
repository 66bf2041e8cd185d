/** Messages to the operator when packages cannot be fetched. */
import { expect, test } from "bun:test";
import { Fault } from "../contract/fault.ts";
import { debianPlace, fetchFault, npmPlace } from "./fetch-faults.ts";

const debian = debianPlace("/cache", undefined);

test.each([
  ["E: Failed to fetch http://m/InRelease  Could not connect to m:80 - connect (111: Connection refused)", 503],
  ["Temporary failure resolving 'deb.debian.org'", 503],
  ["npm error code ENOTFOUND", 503],
  ["dpkg: error: cannot copy extracted data: failed to write (No space left on device)", 507],
  ["E: You don't have enough free space in /var/cache/apt/archives/.", 507],
  ["npm error code ENOSPC", 507],
  ["E: Unable to locate package python3-nonsense", 422],
  ["E: The repository 'http://m trixie Release' does not have a Release file.", 422],
])("%s", (output, status) => {
  expect(fetchFault(new Fault(500, `mmdebstrap ended with exit code 25 and said: ${output}`), debian)).toMatchObject({
    status,
    message: expect.stringContaining("FIX: "),
  });
});

test("names the setting to change, and the failed address", () => {
  const refused = new Error("Connection refused");
  expect(fetchFault(refused, debian)).toMatchObject({ message: expect.stringContaining("SANDLOT_DEBIAN_MIRROR") });
  expect(fetchFault(refused, debianPlace("/cache", "http://m"))).toMatchObject({
    message: expect.stringMatching(/does not reach the mirror of SANDLOT_DEBIAN_MIRROR\. FIX: /),
  });
  expect(fetchFault(refused, npmPlace("/cache"))).toMatchObject({ message: expect.stringContaining("npm") });
  expect(fetchFault(new Error("ENOSPC"), npmPlace("/cache"))).toMatchObject({
    message: expect.stringContaining("/cache"),
  });
});

test("passes unknown errors on unchanged", () => {
  const odd = new Error("dpkg was interrupted");
  expect(fetchFault(odd, debian)).toBe(odd);
});
