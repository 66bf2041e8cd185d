/** Operations on sandboxes that share memory, beside the same on an equally new server whose sandboxes do not. */
import { Sandbox } from "@e2b/code-interpreter";
import { codeInterpreter } from "../../../templates/code-interpreter-v1/definition.ts";
import type { Context } from "../../context.ts";
import { interleave, timed } from "../../figures/samples.ts";
import type { Row } from "../../row.ts";
import { BenchForks } from "../../sandboxes/bench-forks.ts";
import { BenchSandbox } from "../../sandboxes/bench-sandbox.ts";
import { builtTemplate } from "../../sandboxes/built-in-template.ts";
import { createMs } from "../../sandboxes/creating.ts";
import { SecondServer } from "../../sandboxes/second-server.ts";
import { sharingServer } from "./sharing-server.ts";

const READY = 2;
const PEER = "the same without sharing";
const BOUNDS = { atLeast: 1.1, aim: 1 };
/** Before each measurement, so that the sandbox is merged when sharing is on. */
const MERGING_MS = 1_000;

export const SHARING_TIMES: readonly Row[] = [
  timesRow("shared-create", "create through the API with shared memory", createMs),
  ofSandbox("shared-snapshot", "snapshot of an idle sandbox that shares memory", async ({ context, id }) => {
    let name = "";
    const ms = await timed(async () => {
      const made = (await context.call("POST", `/sandboxes/${id}/snapshots`, {})) as { snapshotID: string };
      name = made.snapshotID;
    });
    await context.call("DELETE", `/templates/${encodeURIComponent(name)}`);
    return ms;
  }),
  ofSandbox("shared-fork", "fork into one of a sandbox that shares memory", async (sandbox) => {
    let forks: BenchForks | undefined;
    const ms = await timed(async () => {
      forks = await BenchForks.make(sandbox, 1);
    });
    await forks?.[Symbol.asyncDispose]();
    return ms;
  }),
  ofSandbox("shared-pause", "pause of an idle sandbox that shares memory", async (sandbox) => {
    const ms = await timed(() => pause(sandbox));
    await resume(sandbox);
    return ms;
  }),
  ofSandbox("shared-resume", "resume of an idle sandbox that shares memory", async (sandbox) => {
    await pause(sandbox);
    return await timed(() => resume(sandbox));
  }),
];

export const sharedFirstCell: Row = {
  ...timesRow("shared-first-cell", "create → first cell of the code interpreter with shared memory", firstCellMs),
  async run(given) {
    const server = await sharingServer(given, { ready: READY });
    if ("notMeasured" in server) return server;
    await using on = server;
    await using off = await SecondServer.start(given, { ready: READY });
    for (const { context } of [on, off]) {
      const template = await builtTemplate(context, codeInterpreter);
      if ("notMeasured" in template) return template;
    }
    const [ours, peer] = [() => firstCellMs(on.context), () => firstCellMs(off.context)];
    return { pairs: await interleave(given.rounds, ours, peer) };
  },
};

function timesRow(name: string, what: string, measure: (context: Context) => Promise<number>): Row {
  return {
    name,
    what,
    beside: { peer: PEER, ratio: "cost", bounds: BOUNDS },
    async run(given) {
      const server = await sharingServer(given, { ready: READY });
      if ("notMeasured" in server) return server;
      await using on = server;
      await using off = await SecondServer.start(given, { ready: READY });
      const [ours, peer] = [() => measure(on.context), () => measure(off.context)];
      return { pairs: await interleave(given.rounds, ours, peer) };
    },
  };
}

/** One sandbox on each side for all rounds. */
function ofSandbox(name: string, what: string, measure: (sandbox: BenchSandbox) => Promise<number>): Row {
  return {
    ...timesRow(name, what, createMs),
    async run(given) {
      const server = await sharingServer(given, { ready: READY });
      if ("notMeasured" in server) return server;
      await using onServer = server;
      await using offServer = await SecondServer.start(given, { ready: READY });
      await using on = await BenchSandbox.make(onServer.context);
      await using off = await BenchSandbox.make(offServer.context);
      const ours = async () => {
        await Bun.sleep(MERGING_MS);
        return await measure(on);
      };
      const peer = async () => {
        await Bun.sleep(MERGING_MS);
        return await measure(off);
      };
      return { pairs: await interleave(given.rounds, ours, peer) };
    },
  };
}

async function pause({ context, id }: BenchSandbox): Promise<void> {
  await context.call("POST", `/sandboxes/${id}/pause`, {});
}

async function resume({ context, id }: BenchSandbox): Promise<void> {
  await context.call("POST", `/v2/sandboxes/${id}/connect`, { timeout: 1800 });
}

async function firstCellMs(context: Context): Promise<number> {
  await context.untilReady();
  let sandbox: Sandbox | undefined;
  const ms = await timed(async () => {
    sandbox = await Sandbox.create(context.sdk);
    await sandbox.runCode("1+1");
  });
  await sandbox?.kill();
  return ms;
}
