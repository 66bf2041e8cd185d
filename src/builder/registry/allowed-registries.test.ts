import { expect, test } from "bun:test";
import { parseRegistries, routesTo } from "./allowed-registries.ts";

test("registries are named as in images, with TLS unless marked otherwise", () => {
  expect(parseRegistries(" registry.example:5000\nhttp://10.0.0.5:5000 https://plain.example ")).toEqual([
    { name: "registry.example:5000", tls: true },
    { name: "10.0.0.5:5000", tls: false },
    { name: "plain.example", tls: true },
  ]);
  for (const word of ["ftp://x", "x:0", "x:65536", "x/y", "http://", "[::1]:5000", "X"]) {
    expect(() => parseRegistries(word)).toThrow(`registries: "${word}" must look like`);
  }
});

test("a registry's route is its addresses with the port of its scheme", async () => {
  expect(await routesTo({ name: "10.0.0.5:5000", tls: true })).toEqual({
    host: "10.0.0.5",
    ways: [{ address: "10.0.0.5", port: 5000 }],
  });
  expect((await routesTo({ name: "10.0.0.5", tls: true })).ways).toEqual([{ address: "10.0.0.5", port: 443 }]);
  expect((await routesTo({ name: "localhost", tls: false })).ways).toEqual([{ address: "127.0.0.1", port: 80 }]);
});
