/** One machine for all tests of a file, on its own data folder; removed with all its sandboxes after the last test. */
import { afterAll, beforeAll } from "bun:test";
import { mkdirSync, readdirSync } from "node:fs";
import type { CreateSandbox } from "../../src/contract/internal/host.ts";
import { BASE_TEMPLATE } from "../../src/contract/management/base-template.ts";
import { Machine, type MachineOptions } from "../../src/host/machine.ts";
import { BASE_IMAGE } from "../../src/setup/base-image.ts";
import { guestFolder } from "../../src/setup/guest-folder.ts";
import { applySettings } from "../../src/setup/host-changes.ts";
import { teardown } from "../../src/setup/teardown.ts";
import { attempt } from "../../src/system/command.ts";
import { DataFolder } from "../../src/system/data-folder.ts";
import { Toolbox } from "../../src/system/toolbox.ts";
import { CACHE } from "./cache.ts";
import { recordOf } from "./inside.ts";
import { newDataFolder } from "./server.ts";

export const request: CreateSandbox = {
  kind: { ...BASE_TEMPLATE, templateId: BASE_TEMPLATE.id, image: BASE_IMAGE },
  envVars: {},
  accessTokens: [],
  egress: "closed",
};

export class MachineOfFile {
  readonly dataFolder: string;
  data!: DataFolder;
  machine!: Machine;

  constructor(
    name: string,
    readonly options: Pick<MachineOptions, "files" | "builds" | "fetching" | "endWithinMs" | "runtime"> = {},
  ) {
    this.dataFolder = newDataFolder(name);
    beforeAll(async () => {
      mkdirSync(this.dataFolder, { recursive: true });
      this.data = new DataFolder(this.dataFolder);
      await this.open();
    });
    afterAll(() => this.teardown({ keepData: false }));
  }

  async open(options: Partial<Pick<MachineOptions, "mapIds" | "guestFolder">> = {}): Promise<void> {
    this.data.makeRunFolder();
    applySettings(this.data);
    this.machine = await Machine.open({
      ...this.options,
      data: this.data,
      cacheFolder: CACHE,
      guestFolder: guestFolder(new Toolbox(CACHE)),
      resolver: "9.9.9.9",
      ...options,
    });
  }

  /** Removes everything of it from this machine except, if requested, its data. */
  async teardown(options: { keepData: boolean }): Promise<void> {
    // Undefined if the machine could not be opened.
    await (this.machine as Machine | undefined)?.close();
    // Also if a sandbox still runs on it; teardown, which ends the sandbox, finds the device again.
    await attempt(["umount", "--lazy", `${this.dataFolder}/disks`]);
    await teardown(this.data, CACHE, options);
  }

  /** Ends the first process of every sandbox behind the machine's back. */
  endSandboxes(): void {
    for (const id of readdirSync(this.data.sandboxesFolder)) process.kill(recordOf(this.data, id).pid, "SIGKILL");
  }

  async withSandbox(use: (id: string) => Promise<void>): Promise<void> {
    const { id } = await this.machine.create(request);
    try {
      await use(id);
    } finally {
      await this.machine.destroy(id);
    }
  }
}
