/** The isolation of a booted sandbox. */
import { beforeAll } from "bun:test";
import { Sandbox } from "e2b";
import { serverOfFile } from "../support/server-of-file.ts";
import { testIsolation } from "./isolation.ts";

const server = serverOfFile("isolation", { SANDLOT_READY: "0" });
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
});

testIsolation({ runtime: "crun", life: "booted", server, sandbox: () => sandbox });
