/** Starts a service in a folder, makes it fork a worker, prints the pid of the service, and stays until killed. */
import { readFileSync } from "node:fs";
import { CriuService } from "../criu-service.ts";
import { PLAYED_SERVICE } from "./played-service.ts";
import { talkTo } from "./talk.ts";

const [folder = ""] = process.argv.slice(2);
const command = ["python3", "-c", PLAYED_SERVICE];
const { fd } = await new CriuService({ command, before: "", folder, name: "played", programs: folder }).connect();
const worker = await (await talkTo(fd)).ask(folder);
const stat = readFileSync(`/proc/${worker}/stat`, "utf8");
console.log(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
setInterval(() => undefined, 1000);
