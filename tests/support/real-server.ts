/**
 * A whole server in this process, on the real machine and a real socket, so that a test can observe its store and its
 * host. Assembled as in src/cli/server/serve.ts, except for the mount namespace: tests already run in their own.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { jsonLog } from "../../src/base/log.ts";
import { FolderBlobs } from "../../src/blobs/folder-blobs.ts";
import { builtinDefinition } from "../../src/cli/server/builtin-definitions.ts";
import { SecretsKeyFile } from "../../src/cli/server/secrets-key-file.ts";
import type { Host } from "../../src/contract/internal/host.ts";
import { BASE_TEMPLATE } from "../../src/contract/management/base-template.ts";
import type { RuntimeName } from "../../src/contract/runtime-name.ts";
import type { TemplateDefinition } from "../../src/contract/template-definition.ts";
import { createApiKey } from "../../src/control/access/keys.ts";
import { type Control, createControl } from "../../src/control/control.ts";
import { ensureFirstRun } from "../../src/control/first-run.ts";
import { createIds } from "../../src/control/ids.ts";
import type { SharedMemory } from "../../src/control/templates/shared-memory.ts";
import { Edge } from "../../src/edge/edge.ts";
import { EdgeListener } from "../../src/edge/front/edge-listener.ts";
import { serveManagement } from "../../src/edge/management-server.ts";
import { RouteTable } from "../../src/edge/routing/route-table.ts";
import { Machine } from "../../src/host/machine.ts";
import { serialised } from "../../src/host/testing/serialised-host.ts";
import { BASE_IMAGE } from "../../src/setup/base-image.ts";
import { guestFolder } from "../../src/setup/guest-folder.ts";
import { applySettings, startMerging } from "../../src/setup/host-changes.ts";
import { teardown } from "../../src/setup/teardown.ts";
import { TemplateImages } from "../../src/setup/template-images.ts";
import { openStore, type Store } from "../../src/store/store.ts";
import { attempt } from "../../src/system/command.ts";
import { DataFolder } from "../../src/system/data-folder.ts";
import { Toolbox } from "../../src/system/toolbox.ts";
import { CACHE } from "./cache.ts";
import { askManagement } from "./server.ts";
import { keepServerLine } from "./server-log.ts";

const CALL_MS = 90_000;
const MERGING_MAX_PERCENT = 40;

interface Listeners {
  store?(store: Store): void;
  host?(machine: Machine): Host;
  /** Built-in templates; none by default. */
  definitions?: readonly TemplateDefinition[];
  /** Teams whose sandboxes share memory; none by default. */
  sharedMemory?: SharedMemory;
  /** Public address of the server, which issues identity tokens with it. */
  publicUrl?: string;
}

export class RealServer implements AsyncDisposable {
  private constructor(
    readonly data: DataFolder,
    readonly machine: Machine,
    readonly store: Store,
    readonly control: Control,
    readonly url: string,
    readonly apiKey: string,
    readonly log: readonly string[],
    readonly stopListening: () => Promise<void>,
  ) {}

  static async open(dataFolder: string, listeners: Listeners = {}, runtime: RuntimeName = "crun"): Promise<RealServer> {
    mkdirSync(dataFolder, { recursive: true });
    const data = new DataFolder(dataFolder);
    data.makeRunFolder();
    applySettings(data);
    const blobs = await FolderBlobs.open(data.blobsFolder, systemClock);
    const definitions = (listeners.definitions ?? []).map((definition) => builtinDefinition(CACHE, definition));
    const machine = await Machine.open({
      data,
      cacheFolder: CACHE,
      guestFolder: guestFolder(new Toolbox(CACHE)),
      resolver: "9.9.9.9",
      files: blobs,
      builtinImages: new TemplateImages({ cacheFolder: CACHE, debianMirror: undefined }, listeners.definitions ?? []),
      runtime,
      ksmd: { maxPercent: MERGING_MAX_PERCENT, start: () => startMerging(data) },
      fetching: { templates: { [BASE_TEMPLATE.alias]: BASE_IMAGE } },
    });
    const store = await openStore(`sqlite://${data.storeFile}`, systemClock.now());
    const ids = createIds();
    const base = { ...BASE_TEMPLATE, image: BASE_IMAGE };
    const { firstApiKey = "" } = await ensureFirstRun({ store, ids, clock: systemClock }, [base], definitions);
    listeners.store?.(store);
    const lines: string[] = [];
    const log = jsonLog((line) => {
      lines.push(line);
      keepServerLine(line);
    });
    // As on another machine: only JSON passes between control and host.
    const host = serialised(listeners.host?.(machine) ?? machine);
    const control = createControl({
      store,
      host,
      blobs,
      clock: systemClock,
      ids,
      log,
      builtinsReady: 0,
      definitions,
      privateRanges: [],
      sharedMemory: listeners.sharedMemory ?? "off",
      templateOf: () => undefined,
      linkSecret: new Uint8Array(32),
      secretsKey: new SecretsKeyFile({ dataFolder: data.path, secretsKeyFile: undefined }),
      publicUrl: listeners.publicUrl,
      volumeContent: machine.parts.content,
      machine: () => Promise.reject(new Error("only the whole server reads its machine")),
    });
    const routes = new RouteTable();
    control.directory.follow((event) => routes.take(event));
    const inner = serveManagement({ management: control.handle });
    const management = inner.socket;
    const edge = new Edge({ directory: control.directory, routes, management, log: () => undefined });
    const front = new EdgeListener({ hostname: "127.0.0.1", port: 0, handle: edge.handle });
    await control.start();
    const url = `http://127.0.0.1:${front.port}`;
    return new RealServer(data, machine, store, control, url, firstApiKey, lines, async () => {
      await front.stop(true);
      await inner.stop(true);
    });
  }

  call(method: string, path: string, body?: unknown) {
    return askManagement(`${this.url}${path}`, this.apiKey, method, body, CALL_MS);
  }

  /** The options of the SDK. */
  optionsWith(apiKey = this.apiKey) {
    return { apiUrl: this.url, sandboxUrl: this.url, apiKey };
  }

  /** The API key of a new team. */
  async anotherTeam(slug: string): Promise<string> {
    const [id, now] = [crypto.randomUUID(), systemClock.now()];
    await this.store.people.addTeam({ id, name: slug, slug, limits: {}, createdAt: now });
    const services = { store: this.store, ids: createIds(), clock: systemClock };
    return (await createApiKey(services, { teamId: id, name: slug, createdBy: null })).secret;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.control.close();
    await this.stopListening();
    await this.machine.close();
    await this.store.close();
    await attempt(["umount", join(this.data.path, "disks")]);
    await teardown(this.data, CACHE, { keepData: false });
  }
}
