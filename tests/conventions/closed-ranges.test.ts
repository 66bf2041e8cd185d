/** The firewall, the webhooks and the documentation have the same list of closed address ranges. */
import { expect, test } from "bun:test";
import { CLOSED_RANGES } from "../../src/contract/address-plan.ts";
import { CLOSED_IPV4, CLOSED_IPV6 } from "../../src/contract/closed-ranges.ts";
import { isInside, ownNetworks } from "../../src/control/webhooks/webhook-address.ts";
import { isTestCode } from "./import-rules.ts";
import { tableRows } from "./markdown.ts";
import { readText, sourceFiles } from "./source-files.ts";

const OWNER = "src/contract/closed-ranges.ts";
const all = [...CLOSED_IPV4, ...CLOSED_IPV6];

test("security.md has exactly the closed ranges", () => {
  const rows = all.map(({ range, why }) => ({ Range: range, Why: why }));
  expect(tableRows(readText("docs/security.md"), ["Range", "Why"])).toEqual(rows);
});

test("sandboxes and webhooks have the same closed ranges", () => {
  expect(CLOSED_RANGES).toEqual(CLOSED_IPV4.map(({ range }) => range));
  const nowhere = ownNetworks({});
  for (const range of CLOSED_RANGES) expect(isInside(range.split("/")[0] ?? "", nowhere)).toBe(true);
});

test("no closed range is written twice in the code", () => {
  // Own loopback traffic; a resumed sandbox keeps such connections.
  const loopback = "127.0.0.0/8";
  const copies = sourceFiles()
    .filter(({ path }) => path !== OWNER && !isTestCode(path))
    .flatMap(({ path, text }) =>
      all
        .filter(({ range }) => range !== loopback && text.includes(`"${range}"`))
        .map(({ range }) => `${path}: ${range}`),
    );
  expect(copies).toEqual([]);
});
