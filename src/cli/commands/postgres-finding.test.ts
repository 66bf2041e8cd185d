import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { type PostgresFixture, postgresOfFile, postgresPrograms } from "../../store/testing/postgres.ts";
import { parsePostgresUrl } from "../settings/postgres-url.ts";
import { postgresFinding } from "./postgres-finding.ts";

const dataFolder = folderOfFile("postgres-finding");
const title = postgresPrograms ? "Postgres" : "Postgres (not run: its server programs are not on this machine)";

const examined = (url: string) => {
  const postgres = parsePostgresUrl("store", url);
  return postgresFinding({ dataFolder, postgres }, postgres);
};

test("a database that does not answer is broken, without its password", async () => {
  const finding = await examined("postgres://u:sesame@127.0.0.1:1/x");
  expect(finding).toMatchObject({ status: "broken", fix: expect.stringContaining("start Postgres, or correct") });
  expect(JSON.stringify(finding)).not.toContain("sesame");
});

describe.skipIf(postgresPrograms === undefined)(title, () => {
  let postgres: PostgresFixture;
  beforeAll(async () => {
    postgres = await postgresOfFile(postgresPrograms ?? "");
  });
  afterAll(async () => {
    await postgres[Symbol.asyncDispose]();
  });

  test("a database has its version and the time of a statement", async () => {
    const url = await postgres.emptyDatabase();
    const { detail } = await examined(url);
    expect(detail).toMatch(/^Postgres \d+\.\d+ at 127\.0\.0\.1:\d+\/\w+, \d+\.\d ms for a statement$/);
    const exposed = { ...parsePostgresUrl("store", url), isExposed: true };
    expect(await postgresFinding({ dataFolder, postgres: exposed }, exposed)).toMatchObject({
      status: "degraded",
      lost: expect.stringContaining("not encrypted"),
    });
  });
});
