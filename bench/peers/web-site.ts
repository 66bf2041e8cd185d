/** A fast web site in the benchmark's internet: nginx with the name, address and certificate of the test site there. */
import { rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { enterInternet, SITES } from "../../src/host/testing/outer-network.ts";
import { run } from "../../src/system/command.ts";
import { makeFile } from "../clients/file-transfer.ts";
import type { Context } from "../context.ts";
import { Nginx, speaksTls } from "./nginx.ts";
import type { Site } from "./web-client.ts";

/** The port of nginx: 443 is taken on all addresses, so its connections are redirected here. */
const PORT = 8443;
const TABLE = "inet bench_site";
/** The same small response as the test site's. */
const SMALL_ANSWER = "hello from a web site";

export class WebSite implements AsyncDisposable {
  /** Path of the download. */
  static readonly filePath = "/file";

  private constructor(
    readonly enter: readonly string[],
    readonly nginx: Nginx,
    readonly file: string,
  ) {}

  /** `fileBytes`: size of the download. */
  static async start(context: Context, site: Site, fileBytes: number): Promise<WebSite> {
    const address = SITES[site];
    const enter = enterInternet(context.outerNetwork);
    const file = join(context.data.path, "bench-site.bin");
    await makeFile(file, fileBytes);
    const folder = dirname(context.authority);
    const tls = speaksTls(`${address}:${PORT}`, { cert: join(folder, "web.crt"), key: join(folder, "web.key") });
    const small = `location = / { return 200 "${SMALL_ANSWER}"; }`;
    const large = `location = ${WebSite.filePath} { alias ${file}; }`;
    const url = `https://${address}:${PORT}`;
    const http = [`server { ${tls.join(" ")} ${small} ${large} }`];
    const nginx = await Nginx.start(context, { name: "site", enter, url, http });
    const rule = `ip daddr ${address} tcp dport 443 dnat ip to ${address}:${PORT}`;
    const chain = `chain arrive { type nat hook prerouting priority dstnat; ${rule}\n }`;
    const started = new WebSite(enter, nginx, file);
    try {
      await run([...enter, "nft", "-f", "-"], { stdin: `table ${TABLE} { ${chain}\n }\n` });
      return started;
    } catch (failure) {
      await started[Symbol.asyncDispose]();
      throw failure;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await run([...this.enter, "nft", "-f", "-"], { stdin: `table ${TABLE}\ndelete table ${TABLE}\n` });
    await this.nginx[Symbol.asyncDispose]();
    await rm(this.file, { force: true });
  }
}
