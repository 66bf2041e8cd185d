/** Large files over HTTP/2, beside HTTP/1.1 over TLS: the same client, listener, certificate and file. */
import { rm } from "node:fs/promises";
import { LocalAuthority } from "../../../src/tls/local-authority.ts";
import { LOCAL_DOMAIN } from "../../bench-server.ts";
import { carryFiles, makeFile } from "../../clients/file-transfer.ts";
import type { Context } from "../../context.ts";
import type { Transfer } from "../../peers/curl.ts";
import type { Beside, Outcome, Row } from "../../row.ts";
import { BenchSandbox } from "../../sandboxes/bench-sandbox.ts";

const RUNTIME_PORT = 49983;
const BESIDE_HTTP1: Beside = {
  peer: "the same over HTTP/1.1 with TLS",
  ratio: "speed",
  bounds: { atLeast: 0.7, aim: 0.9 },
};

export const http2Download: Row = {
  name: "http2-download",
  what: "a file of 256 MiB (1 GiB with --long) down through the server, over HTTP/2",
  beside: BESIDE_HTTP1,
  run: (context) => compare(context, "GET"),
};

export const http2Upload: Row = {
  name: "http2-upload",
  what: "a file of 256 MiB (1 GiB with --long) up through the server, over HTTP/2",
  beside: BESIDE_HTTP1,
  run: (context) => compare(context, "POST"),
};

async function compare(context: Context, method: "GET" | "POST"): Promise<Outcome> {
  const authority = LocalAuthority.find(context.data.path);
  if (authority === undefined) return { notMeasured: "openssl is missing. FIX: apt-get install openssl" };
  await using sandbox = await BenchSandbox.make(context);
  const bytes = context.heavyBytes;
  return await carryFiles(context, sandbox, async ({ inSandbox, hostView, source }) => {
    await makeFile(method === "GET" ? hostView : source, bytes);
    const carried = (protocol: "--http1.1" | "--http2"): Transfer => ({
      method,
      url: `https://${RUNTIME_PORT}-${sandbox.id}.${LOCAL_DOMAIN}/files?path=${inSandbox}`,
      headers: { ...sandbox.headers, "Content-Type": "application/octet-stream", "Accept-Encoding": "identity" },
      options: [protocol, "--cacert", authority.trustFile],
      bytes,
      ...(method === "POST" && { upload: source }),
    });
    const clear = () => rm(hostView, { force: true });
    return { ours: carried("--http2"), peer: carried("--http1.1"), ...(method === "POST" && { clear }) };
  });
}
