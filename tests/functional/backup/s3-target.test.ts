/** Backups to an S3-compatible store, and what is said of a store that does not work. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { Sandbox } from "e2b";
import { freePort } from "../../../src/base/testing/free-port.ts";
import { LONG } from "../../../src/base/testing/long.ts";
import { S3_ACCOUNT, startS3 } from "../../support/s3-server.ts";
import { attemptBackup, sandlotBackup } from "../../support/sandlot-backup.ts";
import { newDataFolder, startServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";

const folder = foldersOfFile();
const [data, restored] = [folder("s3"), folder("s3-restored")];
const READY = { SANDLOT_READY: "0" };

describe.skipIf(!LONG)("an S3-compatible store", () => {
  const store = `${newDataFolder("s3-store")}-files`;
  let s3: Awaited<ReturnType<typeof startS3>>;
  let hung: Bun.TCPSocketListener;
  beforeAll(async () => {
    s3 = await startS3(store);
    hung = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => undefined } });
  });
  afterAll(() => {
    s3[Symbol.dispose]();
    hung.stop(true);
    rmSync(store, { recursive: true, force: true });
  });

  test("takes backups that can be verified and restored", async () => {
    const target = `s3:${s3.url}/made-by-init/sandlot`;
    const server = await startServer(data, READY);
    const sandbox = await Sandbox.create({ ...server.options, timeoutMs: 3_600_000 });
    await sandbox.files.write("/tmp/note", "kept");
    await sandbox.pause();
    for (const options of [["--init"], []]) await sandlotBackup(data, ["backup", ...options, target], S3_ACCOUNT);
    expect(await sandlotBackup(data, ["verify", target], S3_ACCOUNT)).toContain("2 backups");
    await server.stop();
    await sandlotBackup(data, ["down"]);
    await sandlotBackup(restored, ["restore", target], S3_ACCOUNT);
    const next = await startServer(restored, READY);
    expect(await (await Sandbox.connect(sandbox.sandboxId, next.options)).files.read("/tmp/note")).toBe("kept");
    await next.stop();
  });

  test.each([
    [
      "the key id is unknown",
      () => s3.url,
      { AWS_ACCESS_KEY_ID: "wrong" },
      "The AWS Access Key Id you provided does not exist",
    ],
    [
      "the secret key is wrong",
      () => s3.url,
      { AWS_SECRET_ACCESS_KEY: "wrong" },
      "The request signature we calculated does not match",
    ],
    ["the bucket is missing", () => s3.url, {}, "The specified bucket does not exist"],
    ["nothing listens", () => `http://127.0.0.1:${freePort()}`, {}, "connection refused"],
    ["it does not answer", () => `http://127.0.0.1:${hung.port}`, {}, "could not be opened within 30 seconds"],
  ] as const)("is an error that names the target and the reason when %s", async (_, url, changes, reason) => {
    const target = `s3:${url()}/missing/sandlot`;
    const { exitCode, stderr } = await attemptBackup(data, ["verify", target], { ...S3_ACCOUNT, ...changes });
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining(target)]);
    expect(stderr).toContain(reason);
  });
});
