/** User namespaces, really created, one after the other. */
import { expect, test } from "bun:test";
import { closeSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { openUserNamespace } from "./user-namespace.ts";

const TABLE = [{ inside: 0, outside: 1_900_065_536, count: 65_536 }];

test("a thousand user namespaces are made, and nothing is left", () => {
  const descriptors = () => readdirSync("/proc/self/fd").length;
  const children = () => readFileSync("/proc/thread-self/children", "utf8");
  const before = { descriptors: descriptors(), children: children() };
  const seen = Array.from({ length: 1000 }, () => {
    const namespace = openUserNamespace(TABLE);
    const name = readlinkSync(`/proc/self/fd/${namespace}`);
    closeSync(namespace);
    return name;
  });
  expect(seen.every((each) => /^user:\[\d+\]$/.test(each))).toBe(true);
  expect(seen).not.toContain(readlinkSync("/proc/self/ns/user"));
  expect(children()).toBe(before.children);
  // Other code in this process may have closed descriptors meanwhile.
  expect(descriptors()).toBeLessThanOrEqual(before.descriptors);
});

test("a mapping that the kernel rejects is an error, and nothing is left", () => {
  const before = readdirSync("/proc/self/fd").length;
  const overlapping = [...TABLE, ...TABLE];
  for (let times = 0; times < 10; times++) expect(() => openUserNamespace(overlapping)).toThrow("EINVAL");
  expect(readdirSync("/proc/self/fd").length).toBeLessThanOrEqual(before);
});
