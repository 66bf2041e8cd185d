import { expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import { run } from "../../system/command.ts";
import { examine } from "./doctor.ts";
import { type Check, type Finding, findingLines, ok } from "./finding.ts";

const OPTIONS = { dataFolder: "/d", cacheFolder: "/c", guestFolder: "/g" };

async function found(check: Check): Promise<{ finding: Finding; statuses: string[] }> {
  let finding = ok("");
  const statuses = await examine(OPTIONS, (_, each) => (finding = each), [check]);
  return { finding, statuses: [...statuses] };
}

test("a check that times out is retried, and is a timeout, not broken", async () => {
  let tries = 0;
  const name = "slow";
  const late = async () => {
    tries += 1;
    return ok(await run(["sleep", "60"], { timeoutMs: 10 }));
  };
  const { finding, statuses } = await found({ name, run: late });
  expect({ tries, statuses }).toEqual({ tries: 2, statuses: ["timeout"] });
  const [line = "", fix = ""] = findingLines(name, finding);
  expect(line).toMatch(
    /^timeout {2}slow: not known, because it did not end in time, 2 times: sleep did not end within 10 ms/,
  );
  expect(fix).toContain("FIX: run it again when the machine is less busy; on a slow machine set SANDLOT_TIME_FACTOR");

  const { finding: own } = await found({ name, timeoutFix: "wait", run: late });
  expect(own).toMatchObject({ status: "timeout", fix: "wait" });
});

test("a check that succeeds at the second attempt counts as successful", async () => {
  let tries = 0;
  const { finding } = await found({
    name: "slow once",
    run: async () => ok(await run(["sleep", tries++ === 0 ? "60" : "0"], { timeoutMs: tries === 1 ? 10 : 30_000 })),
  });
  expect(finding.status).toBe("ok");
  expect(tries).toBe(2);
});

test("a check that throws another error is broken, and is not retried", async () => {
  let tries = 0;
  const { finding } = await found({
    name: "torn",
    run: () => {
      tries += 1;
      throw new Fault(500, "torn");
    },
  });
  expect(finding).toMatchObject({ status: "broken", detail: "the check itself failed: torn" });
  expect(tries).toBe(1);
});
