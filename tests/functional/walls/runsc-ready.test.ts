/** A sandbox behind runsc that was ready: it is told whose it is by a file, which its sentry has to look at anew. */
import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { RUNTIME_PORT } from "../../../src/contract/runtime/version.ts";
import { MachineOfFile, request } from "../../support/machine-of-file.ts";
import { until } from "../../support/until.ts";

const here = new MachineOfFile("runsc-ready", { wall: "runsc" });

test("has the settings of whoever asked for it", async () => {
  await here.machine.keepReady([{ kind: request.kind, count: 1, checkpoint: null }]);
  let ready: string | undefined;
  await until("one is ready", () => {
    ready = readdirSync(here.data.sandboxesFolder).find((id) => here.machine.addressOf(id) !== undefined);
    return ready !== undefined;
  });
  const envVars = { OF_MINE: "x".repeat(9_000) };
  const { id } = await here.machine.create({ ...request, envVars, egress: "open", accessTokens: ["token"] });
  expect(id).toBe(ready ?? "");
  const envs = async (token: string) => {
    const headers = { "x-access-token": token };
    return await fetch(`http://${here.machine.addressOf(id)}:${RUNTIME_PORT}/envs`, { headers });
  };
  expect((await envs("other")).status).toBe(401);
  expect(await (await envs("token")).json()).toMatchObject({ ...envVars, E2B_SANDBOX_ID: id });
  await here.machine.keepReady([]);
  await here.machine.destroy(id);
});
