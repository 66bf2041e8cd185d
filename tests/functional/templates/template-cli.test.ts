/** Templates through the official command line. */
import { beforeAll, describe, expect, test } from "bun:test";
import { Template } from "e2b";
import { cliOfFile } from "../../support/e2b-cli.ts";
import { BUILT_IN, sharedServer } from "../../support/shared-server.ts";

const server = sharedServer();
const cli = cliOfFile(server);
let templateId: string;
beforeAll(async () => {
  const options = { ...server().options, cpuCount: 1 };
  templateId = (await Template.build(Template().fromTemplate("base"), "listed", options)).templateId;
});

interface Listed {
  templateID: string;
  aliases: string[];
  cpuCount: number;
  public: boolean;
  buildStatus: string;
  createdBy: { email: string };
}

/** Without built-in templates. */
function own(listed: readonly Listed[]): Listed[] {
  return listed.filter(({ templateID }) => !BUILT_IN.has(templateID));
}

/** The templates according to the server: each start of the command line takes a second. */
async function there(): Promise<Listed[]> {
  return own((await server().call("GET", "/templates")).body);
}

describe("e2b template", () => {
  test("list shows built templates", async () => {
    const [json, shown] = await Promise.all([cli.template(["list", "--format", "json"]), cli.template(["list"])]);
    expect(own(JSON.parse(json.stdout))).toMatchObject([
      { templateID: templateId, aliases: ["listed"], cpuCount: 1, public: false, buildStatus: "ready" },
    ]);
    expect([json.exitCode, shown.exitCode]).toEqual([0, 0]);
    expect(shown.stdout).toContain("listed");
    // Every team sees the built-in templates.
    expect(shown.stdout).toMatch(/Public.*code-interpreter-v1/);
  });

  test("publish and unpublish change whether other teams can use it", async () => {
    expect((await cli.template(["publish", templateId, "--yes"])).exitCode).toBe(0);
    expect(await there()).toMatchObject([{ public: true }]);
    expect((await cli.template(["unpublish", templateId, "--yes"])).exitCode).toBe(0);
    expect(await there()).toMatchObject([{ public: false }]);
  });

  test("delete removes it", async () => {
    await Template.build(Template().fromTemplate("base"), "unwanted", server().options);
    const { exitCode } = await cli.template(["delete", "unwanted", "--yes"]);
    expect(exitCode).toBe(0);
    expect((await there()).map(({ aliases }) => aliases)).toEqual([["listed"]]);
  });
});
