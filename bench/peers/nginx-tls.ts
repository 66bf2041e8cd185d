/**
 * The peer of the listener with TLS: nginx from the distribution as the same proxy, with the same certificate, in front
 * of the same service of the same sandbox. One process, as our server is, and a new connection for each request, as
 * nginx has it by default.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { MINIMAL_ENV } from "../../src/host/system/command.ts";
import type { CertificateFiles } from "../../src/host/tls/certificate.ts";
import { commonLines, untilAnswering } from "./nginx.ts";

/** The network is our own, so any port is free. */
const PORT = 8444;

export class TlsProxy implements AsyncDisposable {
  readonly port = PORT;
  readonly #folder: string;
  readonly #child: Bun.Subprocess;

  private constructor(folder: string, child: Bun.Subprocess) {
    this.#folder = folder;
    this.#child = child;
  }

  static async start(program: string, runFolder: string, files: CertificateFiles, upstream: string): Promise<TlsProxy> {
    const folder = join(runFolder, "bench-nginx-tls");
    mkdirSync(folder, { recursive: true });
    const config = join(folder, "nginx.conf");
    writeFileSync(config, configuration(folder, files, upstream));
    const child = Bun.spawn(
      ["setpriv", "--pdeathsig", "KILL", "--", program, "-e", "stderr", "-p", folder, "-c", config],
      {
        stdio: ["ignore", "ignore", "inherit"],
        env: { ...MINIMAL_ENV },
      },
    );
    const proxy = new TlsProxy(folder, child);
    try {
      await untilAnswering(`https://127.0.0.1:${PORT}`, child);
      return proxy;
    } catch (failure) {
      await proxy[Symbol.asyncDispose]();
      throw failure;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.exited;
    await rm(this.#folder, { recursive: true, force: true });
  }
}

function configuration(own: string, { cert, key }: CertificateFiles, upstream: string): string {
  return [
    ...commonLines(own),
    `  client_body_temp_path ${own}/bodies;`,
    // By default nginx closes a connection after a thousand requests.
    "  keepalive_requests 1000000;",
    "  server {",
    `    listen 127.0.0.1:${PORT} ssl http2;`,
    `    ssl_certificate ${cert};`,
    `    ssl_certificate_key ${key};`,
    `    location / { proxy_pass ${upstream}; proxy_max_temp_file_size 0; }`,
    "  }",
    "}",
    "",
  ].join("\n");
}
