import { expect, test } from "bun:test";
import { identityFiles } from "./disk-identity.ts";

test("host names and the name server match the sandbox network, whatever the image contains", () => {
  const { "resolv.conf": resolver, hostname, hosts } = identityFiles();
  expect([resolver, hostname]).toEqual(["nameserver 169.254.0.22\n", "e2b.local\n"]);
  expect(hosts).toContain("169.254.0.21 e2b.local\n");
});

test("each disk has its own machine id", () => {
  const [one, other] = [identityFiles(), identityFiles()].map((files) => files["machine-id"]);
  expect(one).toMatch(/^[0-9a-f]{32}\n$/);
  expect(other).toMatch(/^[0-9a-f]{32}\n$/);
  expect(one).not.toBe(other);
});
