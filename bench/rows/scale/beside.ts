/** What a create waits for while one sandbox has all of the server's data path to itself. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { BASE_TEMPLATE } from "../../../src/contract/management/base-template.ts";
import { makeFile } from "../../clients/file-transfer.ts";
import type { Context } from "../../context.ts";
import type { Pairs } from "../../figures/samples.ts";
import { transferMs } from "../../peers/curl.ts";
import type { Row } from "../../row.ts";
import { BenchSandbox } from "../../sandboxes/bench-sandbox.ts";
import { createMs } from "../../sandboxes/creating.ts";

const FILE = "bench.bin";
const BOUNDS = { atLeast: 1.5, aim: 1.2 };
/** Until curl is under way. */
const UNDER_WAY_MS = 300;
const CREATES = 3;

export const createBesideDownload: Row = {
  name: "create-beside-download",
  what: "create through the API while another sandbox is read from as fast as can be",
  beside: { peer: "the same while nothing else is asked for", ratio: "cost", bounds: BOUNDS },
  run: (context) => compare(context, "GET"),
};

export const createBesideUpload: Row = {
  name: "create-beside-upload",
  what: "create through the API while another sandbox is written to as fast as can be",
  beside: { peer: "the same while nothing else is asked for", ratio: "cost", bounds: BOUNDS },
  run: (context) => compare(context, "POST"),
};

async function compare(context: Context, method: "GET" | "POST") {
  await using sandbox = await BenchSandbox.make(context);
  const pairs: Pairs = { ours: [], peer: [] };
  const source = join(context.data.path, FILE);
  try {
    await makeFile(
      method === "GET" ? join(sandbox.root, BASE_TEMPLATE.defaultWorkdir, FILE) : source,
      context.heavyBytes,
    );
    while (pairs.ours.length < context.rounds) {
      for (let nth = 0; nth < CREATES; nth++) pairs.peer.push(await createMs(context));
      const over = new AbortController();
      const carried = carry(sandbox, method, source, over.signal);
      await Bun.sleep(UNDER_WAY_MS);
      for (let nth = 0; nth < CREATES; nth++) pairs.ours.push(await createMs(context));
      over.abort();
      await carried;
    }
    return { pairs };
  } finally {
    await rm(source, { force: true });
  }
}

/** By curl, so that this process has nothing to do but to create. */
async function carry(sandbox: BenchSandbox, method: "GET" | "POST", source: string, over: AbortSignal): Promise<void> {
  const { context, headers } = sandbox;
  const url = `${context.sdk.sandboxUrl}/files?path=${join(BASE_TEMPLATE.defaultWorkdir, FILE)}`;
  const how =
    method === "GET"
      ? { headers: { ...headers, "Accept-Encoding": "identity" } }
      : { headers: { ...headers, "Content-Type": "application/octet-stream" }, upload: source };
  while (!over.aborted) await transferMs({ method, url, ...how, bytes: context.heavyBytes });
}
