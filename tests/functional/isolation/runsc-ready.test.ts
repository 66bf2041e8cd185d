/** A ready sandbox with runsc receives its settings in a file, which its sentry has to read again. */
import { expect, test } from "bun:test";
import { RUNTIME_PORT } from "../../../src/contract/runtime/version.ts";
import { MachineOfFile, request } from "../../support/machine-of-file.ts";
import { readySandbox } from "../../support/ready-sandbox.ts";

const here = new MachineOfFile("runsc-ready", { runtime: "runsc" });

test("a ready sandbox with runsc gets the settings of its create request", async () => {
  const ready = await readySandbox(here);
  const envVars = { OF_MINE: "x".repeat(9_000) };
  const { id } = await here.machine.create({ ...request, envVars, egress: "open", accessTokens: ["token"] });
  expect(id).toBe(ready);
  const envs = async (token: string) => {
    const headers = { "x-access-token": token };
    return await fetch(`http://${here.machine.addressOf(id)}:${RUNTIME_PORT}/envs`, { headers });
  };
  expect((await envs("other")).status).toBe(401);
  expect(await (await envs("token")).json()).toMatchObject({ ...envVars, E2B_SANDBOX_ID: id });
  await here.machine.keepReady([]);
  await here.machine.destroy(id);
});
