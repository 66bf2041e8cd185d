import { expect, test } from "bun:test";
import { leadsTo } from "./network-quiesce.ts";

const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
const line = (remote: string, state: string) => `   0: 01F012C6:B73E ${remote}:C33F ${state} 00000000:00000000 00:0\n`;

test.each([
  ["a connection", line("02F012C6", "01"), true],
  ["a connection of an IPv6 socket", line("0000000000000000FFFF000002F012C6", "01"), true],
  ["a connection that is being closed", line("02F012C6", "04"), true],
  ["an ended connection", line("02F012C6", "06"), false],
  ["a connection that the sandbox closed first", line("02F012C6", "09"), false],
  ["a connection to the neighbour", line("03F012C6", "01"), false],
  ["nothing", "", false],
])("whether %s is a connection to 198.18.240.2", (_what, lines, expected) => {
  expect(leadsTo(head + lines, "198.18.240.2")).toBe(expected);
});
