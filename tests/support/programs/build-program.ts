/** Runs a build on its own machine until it is killed. Prints the build's log, and `done` at the end. */
import { Machine } from "../../../src/host/machine.ts";
import { guestFolder } from "../../../src/setup/guest-folder.ts";
import { DataFolder } from "../../../src/system/data-folder.ts";
import { Toolbox } from "../../../src/system/toolbox.ts";

const [dataPath = "", cacheFolder = "", request = ""] = process.argv.slice(2);
const machine = await Machine.open({
  data: new DataFolder(dataPath),
  cacheFolder,
  guestFolder: guestFolder(new Toolbox(cacheFolder)),
  resolver: "9.9.9.9",
});
machine.events((event) => {
  if (event.kind === "build-log") for (const { message } of event.entries) console.log(message);
});
await machine.build(JSON.parse(request));
console.log("done");
await machine.close();
process.exit(0);
