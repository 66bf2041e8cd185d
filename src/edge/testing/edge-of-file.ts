/** One edge for all tests of a file; it ends after the last of them. */
import { afterAll } from "bun:test";
import { EdgeUnderTest } from "./edge-under-test.ts";

export function edgeOfFile(options: ConstructorParameters<typeof EdgeUnderTest>[0] = {}): EdgeUnderTest {
  const edge = new EdgeUnderTest(options);
  afterAll(() => edge[Symbol.asyncDispose]());
  return edge;
}
