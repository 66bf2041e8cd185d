/** The network isolation of booted sandboxes. */
import { Sandbox } from "e2b";
import { serverOfFile } from "../support/server-of-file.ts";
import { testNetworkIsolation } from "./network-isolation.ts";

const server = serverOfFile("network-isolation");

testNetworkIsolation(server, async () => {
  const make = (allowInternetAccess: boolean | undefined) =>
    Sandbox.create({
      ...server().options,
      timeoutMs: 600_000,
      ...(allowInternetAccess === undefined ? {} : { allowInternetAccess }),
    });
  const [open, offline, neighbour] = await Promise.all([make(true), make(false), make(undefined)]);
  return { open, offline, neighbour };
});
