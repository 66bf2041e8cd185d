import { expect, test } from "bun:test";
import { identityFiles } from "./disk-identity.ts";

test("names and the name server fit the network of every sandbox, whatever the image says", () => {
  const { "resolv.conf": resolver, hostname, hosts } = identityFiles();
  expect([resolver, hostname]).toEqual(["nameserver 169.254.0.22\n", "e2b.local\n"]);
  expect(hosts).toContain("169.254.0.21 e2b.local\n");
});

test("each has a machine id of its own", () => {
  const [one, other] = [identityFiles(), identityFiles()].map((files) => files["machine-id"]);
  expect(one).toMatch(/^[0-9a-f]{32}\n$/);
  expect(other).toMatch(/^[0-9a-f]{32}\n$/);
  expect(one).not.toBe(other);
});
