/** Prints the doctor's finding about the firewall of this network namespace, and writes its FIX to a file. */
import { writeFileSync } from "node:fs";
import { firewall } from "../firewall-check.ts";

const finding = await firewall();
writeFileSync(process.argv[2] ?? "", "fix" in finding ? finding.fix : "");
console.log(JSON.stringify(finding));
process.exit(0);
