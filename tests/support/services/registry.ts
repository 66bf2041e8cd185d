/** Serves images and packages on the tests' internet; also a registry that breaks the rules. */
import { mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { enterInternet } from "../../../src/host/testing/outer-network.ts";
import { run } from "../../../src/system/command.ts";
import { until } from "../until.ts";

interface Running extends AsyncDisposable {
  /** As in the name of an image. */
  name: string;
  url: string;
}

/** With the key beside it. */
interface Certificate {
  certificate: string;
  key: string;
}

/**
 * docker-registry, on a port of one of the addresses of that internet. Several may serve one folder. With a certificate
 * it speaks TLS, for which its `url` is not right.
 */
export async function startRegistry(
  folder: string,
  address: string,
  port: number,
  tls?: Certificate,
): Promise<Running> {
  mkdirSync(folder, { recursive: true });
  const config = join(folder, `config-${port}.yml`);
  const settings = {
    version: 0.1,
    log: { level: "error" },
    storage: { filesystem: { rootdirectory: join(folder, "data") } },
    http: { addr: `${address}:${port}`, ...(tls === undefined ? {} : { tls }) },
  };
  // Every JSON is YAML.
  writeFileSync(config, JSON.stringify(settings));
  return await started(["docker-registry", "serve", config], address, port);
}

/** Makes a new authority, AUTHORITY.crt, and its certificate for an address, OWN.crt. */
export async function makeCertificate(authority: string, own: string, address: string): Promise<Certificate> {
  const kind = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 2".split(" ");
  const request = (name: string, ...more: string[]) =>
    run([
      "openssl",
      "req",
      ...kind,
      "-subj",
      `/CN=${basename(name)}`,
      "-keyout",
      `${name}.key`,
      "-out",
      `${name}.crt`,
      ...more,
    ]);
  await request(authority);
  const signed = ["-CA", `${authority}.crt`, "-CAkey", `${authority}.key`];
  await request(own, ...signed, "-addext", `subjectAltName=IP:${address}`, "-addext", "basicConstraints=CA:FALSE");
  return { certificate: `${own}.crt`, key: `${own}.key` };
}

/** services/bad-registry.ts, which reads its image from this folder. */
export async function startBadRegistry(layout: string, address: string, port: number): Promise<Running> {
  const program = join(import.meta.dir, "bad-registry.ts");
  return await started([process.execPath, program, layout, address, String(port)], address, port);
}

/** All files of a folder. */
export async function startFileServer(folder: string, address: string, port: number): Promise<Running> {
  const argv = ["python3", "-m", "http.server", "--bind", address, "--directory", folder, String(port)];
  // It tells of each request there.
  return await started(argv, address, port, "ignore");
}

async function started(
  argv: string[],
  address: string,
  port: number,
  stderr: "inherit" | "ignore" = "inherit",
): Promise<Running> {
  const child = Bun.spawn([...enterInternet(process.env.SANDLOT_TEST_RUN ?? ""), ...argv], {
    stdio: ["ignore", "ignore", stderr],
  });
  const url = `http://${address}:${port}`;
  await until(`${argv[0]} answers`, async () => {
    if (child.exitCode !== null) throw new Error(`${argv[0]} ended with ${child.exitCode}`);
    return (await fetch(`${url}/v2/`).catch(() => undefined)) !== undefined;
  });
  return {
    name: `${address}:${port}`,
    url,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.exited;
    },
  };
}
