/** Create latency while one sandbox saturates the server's data path. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { BASE_TEMPLATE } from "../../../src/contract/management/base-template.ts";
import { makeFile } from "../../clients/file-transfer.ts";
import type { Context } from "../../context.ts";
import { type Pairs, summary } from "../../figures/samples.ts";
import { type Transfer, transferMs } from "../../peers/curl.ts";
import { Nginx } from "../../peers/nginx.ts";
import type { Row } from "../../row.ts";
import { BenchSandbox } from "../../sandboxes/bench-sandbox.ts";
import { createMs } from "../../sandboxes/creating.ts";

const FILE = "bench.bin";
const FOLDER = BASE_TEMPLATE.defaultWorkdir;
/** Wait until curl is running. */
const UNDER_WAY_MS = 300;
const CREATES = 3;

export const createBesideDownload: Row = {
  name: "create-beside-download",
  what: "create through the API during downloads from another sandbox at full speed",
  beside: { peer: "the same without other requests", ratio: "cost" },
  run: (context) => compare(context, "GET"),
};

export const createBesideUpload: Row = {
  name: "create-beside-upload",
  what: "create through the API during uploads to another sandbox at full speed",
  beside: { peer: "the same without other requests", ratio: "cost" },
  run: (context) => compare(context, "POST"),
};

async function compare(context: Context, method: "GET" | "POST") {
  await using sandbox = await BenchSandbox.make(context);
  const pairs: Pairs = { ours: [], peer: [] };
  /**
   * Creates while the same client downloads from nginx in the sandbox's network: the part of the wait without the
   * server.
   */
  const withoutServer: number[] = [];
  const source = join(context.data.path, FILE);
  await using nginx = Bun.which("nginx") === null ? undefined : await Nginx.startInSandbox(sandbox, FOLDER);
  try {
    await makeFile(method === "GET" ? join(sandbox.root, FOLDER, FILE) : source, context.heavyBytes);
    const transfer = transferThrough(sandbox, method, source);
    while (pairs.ours.length < context.rounds) {
      for (let nth = 0; nth < CREATES; nth++) pairs.peer.push(await createMs(context));
      pairs.ours.push(...(await createsBeside(context, transfer)));
      if (nginx === undefined) continue;
      const past = method === "GET" ? { method } : { method: "PUT" as const, upload: source };
      const url = `${nginx.url}/${method === "GET" ? FILE : `${FILE}.put`}`;
      withoutServer.push(...(await createsBeside(context, { ...past, url, bytes: context.heavyBytes })));
    }
    return { pairs, notes: nginx === undefined ? [] : [boundOf(withoutServer, pairs.peer)] };
  } finally {
    await rm(source, { force: true });
  }
}

function boundOf(withoutServer: number[], alone: number[]): string {
  const [beside, none] = [summary(withoutServer).median, summary(alone).median];
  return `beside curl and nginx in the sandbox, past the server: ${beside.toFixed(1)} ms, ${(beside / none).toFixed(2)} ×`;
}

async function createsBeside(context: Context, transfer: Transfer): Promise<number[]> {
  const over = new AbortController();
  const carried = carry(transfer, over.signal);
  await Bun.sleep(UNDER_WAY_MS);
  const creates: number[] = [];
  for (let nth = 0; nth < CREATES; nth++) creates.push(await createMs(context));
  over.abort();
  await carried;
  return creates;
}

/** Uses curl, so that this process only creates. */
async function carry(transfer: Transfer, over: AbortSignal): Promise<void> {
  while (!over.aborted) await transferMs(transfer);
}

function transferThrough({ context, headers }: BenchSandbox, method: "GET" | "POST", source: string): Transfer {
  const url = `${context.sdk.sandboxUrl}/files?path=${join(FOLDER, FILE)}`;
  const how =
    method === "GET"
      ? { headers: { ...headers, "Accept-Encoding": "identity" } }
      : { headers: { ...headers, "Content-Type": "application/octet-stream" }, upload: source };
  return { method, url, ...how, bytes: context.heavyBytes };
}
