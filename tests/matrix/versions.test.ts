import { expect, test } from "bun:test";
import { newestOfMinors } from "./versions.ts";

test("the newest releases of minor versions are in numeric order, without pre-releases", () => {
  const versions = ["2.9.0", "2.10.1", "2.10.12", "2.10.3", "2.11.0-beta.1", "1.99.0", "2.9.4"];
  expect(newestOfMinors(versions, 2)).toEqual(["2.10.12", "2.9.4"]);
  expect(newestOfMinors(versions, 9)).toEqual(["2.10.12", "2.9.4", "1.99.0"]);
});
