import { expect, test } from "bun:test";
import { leadsTo } from "./network-quiesce.ts";

const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
const line = (remote: string, state: string) => `   0: 01F012C6:B73E ${remote}:C33F ${state} 00000000:00000000 00:0\n`;

test.each([
  ["a connection", line("02F012C6", "01"), true],
  ["one of an IPv6 socket", line("0000000000000000FFFF000002F012C6", "01"), true],
  ["one that is being closed", line("02F012C6", "04"), true],
  ["one that is over", line("02F012C6", "06"), false],
  ["one on which the sandbox has hung up first", line("02F012C6", "09"), false],
  ["one to the neighbour", line("03F012C6", "01"), false],
  ["nothing", "", false],
])("whether %s is a connection to 198.18.240.2", (_what, lines, expected) => {
  expect(leadsTo(head + lines, "198.18.240.2")).toBe(expected);
});
