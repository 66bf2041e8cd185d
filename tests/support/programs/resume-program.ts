/** Resumes one sandbox on its own machine and prints the answer of its service. */
import { BASE_TEMPLATE } from "../../../src/contract/management/base-template.ts";
import { Machine } from "../../../src/host/machine.ts";
import { BASE_IMAGE } from "../../../src/setup/base-image.ts";
import { guestFolder } from "../../../src/setup/guest-folder.ts";
import { DataFolder } from "../../../src/system/data-folder.ts";
import { Toolbox } from "../../../src/system/toolbox.ts";
import { ask } from "../inside.ts";

const [dataPath = "", cacheFolder = "", id = "", checkpoint = "", port = ""] = process.argv.slice(2);
const kind = { ...BASE_TEMPLATE, templateId: BASE_TEMPLATE.id, image: BASE_IMAGE };
const machine = await Machine.open({
  data: new DataFolder(dataPath),
  cacheFolder,
  guestFolder: guestFolder(new Toolbox(cacheFolder)),
  resolver: "9.9.9.9",
});
await machine.resume({ kind, envVars: {}, accessTokens: [], egress: "closed", id, checkpoint, memory: true });
console.log(await ask(machine, id, Number(port)));
await machine.close();
process.exit(0);
