/**
 * Changes the machine's settings as a server does at its start, for tests without a server. The teardown of the named
 * folder restores them, as with the folders of all servers of a run.
 */
import { applySettings } from "../../src/setup/host-changes.ts";
import { DataFolder } from "../../src/system/data-folder.ts";

const data = new DataFolder(process.argv[2] ?? "");
data.makeRunFolder();
applySettings(data);
