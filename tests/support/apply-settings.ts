/**
 * Changes the settings of the machine as a server does at its start, for tests that have none of their own. They are
 * put back when the folder that is named is torn down, as the folders of all servers of a run are.
 */
import { applySettings } from "../../src/setup/host-changes.ts";
import { DataFolder } from "../../src/system/data-folder.ts";

const data = new DataFolder(process.argv[2] ?? "");
data.makeRunFolder();
applySettings(data);
