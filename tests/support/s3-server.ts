/** A small S3 server from the npm registry. It is installed before the tests, which have no package servers. */
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { LONG } from "../../src/base/testing/long.ts";
import { makeAtomically, type SetupStep } from "../../src/setup/step.ts";
import { npm } from "./npm.ts";

/** A maintained copy of s3rver. */
const PACKAGE = "@20minutes/s3rver@5.0.0";
/** Increase the number when the package changes. */
const FOLDER = "/var/cache/sandlot-tests/s3-1";
/** Its one account. */
export const S3_ACCOUNT = { AWS_ACCESS_KEY_ID: "S3RVER", AWS_SECRET_ACCESS_KEY: "S3RVER" };

const PROGRAM = join(import.meta.dir, "programs/s3-program.mjs");

export function s3ServerSteps(files: readonly string[]): SetupStep[] {
  if (!LONG || !files.some((file) => file.includes("/s3-target."))) return [];
  const install = ["install", "--no-audit", "--no-fund", PACKAGE];
  const make = () =>
    makeAtomically(FOLDER, async (folder) => void (await npm([...install, "--prefix", folder], folder)));
  return [{ title: "an S3 server for tests", done: () => existsSync(FOLDER), make }];
}

/** It keeps its data in this folder, and has no bucket at first. */
export async function startS3(folder: string): Promise<Disposable & { url: string }> {
  mkdirSync(folder, { recursive: true });
  const child = Bun.spawn(["node", PROGRAM, join(FOLDER, "node_modules/@20minutes/s3rver"), folder], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const { value } = await child.stdout.getReader().read();
  const url = `http://127.0.0.1:${Number(new TextDecoder().decode(value))}`;
  return { url, [Symbol.dispose]: () => child.kill() };
}
