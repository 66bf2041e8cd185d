/** Increments the number in a file so many times, each time under a lock of all servers. */
import { readFileSync, writeFileSync } from "node:fs";
import { lockOfAllServers } from "../data-folder.ts";

const [lock = "", file = "", times = "0"] = process.argv.slice(2);
for (let count = 0; count < Number(times); count++) {
  using _lock = lockOfAllServers(lock);
  writeFileSync(file, String(Number(readFileSync(file, "utf8")) + 1));
}
