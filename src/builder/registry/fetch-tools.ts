/**
 * The two tools in a sandbox that fetches an image: skopeo queries the registry and copies, umoci unpacks. Their input
 * is untrusted, and so is their output, since an image might take one of them over. Credentials are in memory inside
 * the sandbox, in a file for root, never on a disk or a command line, and are removed before anything is unpacked.
 */
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import type { GuestCommands } from "../../sandbox/guest-link/guest-commands.ts";
import { FETCH_COPY_MS, FETCH_DOCUMENT_MAX_BYTES } from "../limits.ts";
import { imageArchitecture } from "./manifest.ts";
import type { RegistryLogin } from "./registry-login.ts";
import { reasonOf } from "./tool-error.ts";

/** Length of a tool's output that is kept to explain a failure. */
const FETCH_SAID_MAX_CHARS = 4_096;
const FETCH_UNPACK_MS = scaled(30 * 60_000);
/** The root filesystem of the fetching sandbox, made by setup. Bump this when its content changes. */
export const FETCH_IMAGE = "fetch-1";

/** All files of a fetch are below this folder of the sandbox's disk. */
const FOLDER = "/fetch";
/** The unpacked image, relative to `upper` of the disk. */
export const UNPACKED = "fetch/root";
const LAYOUT = `${FOLDER}/layout`;
const TAG = "image";
/** Beside the certificates of the sandbox's image: the tools read every file of this folder. */
const AUTHORITIES_FILE = "/etc/ssl/certs/machine.crt";
/** A file on a tmpfs. */
const LOGIN_FILE = "/run/fetch/login.json";
const GO_ENV = { HOME: "/root", PATH: "/usr/bin", TMPDIR: FOLDER };

/** The source of an image in skopeo's syntax. */
export interface Source {
  reference: string;
  /** False: without TLS, as the operator allows for this registry. */
  tls: boolean;
}

export class FetchTools {
  #secrets: readonly string[] = [];

  constructor(
    private readonly commands: GuestCommands,
    private readonly questionMaxMs: number,
    private readonly signal: AbortSignal,
  ) {}

  async logIn(registry: string, { username, password }: RegistryLogin): Promise<void> {
    const auth = Buffer.from(`${username}:${password}`).toString("base64");
    this.#secrets = [password, auth];
    await this.write(LOGIN_FILE, JSON.stringify({ auths: { [registry]: { auth } } }));
  }

  async logOut(): Promise<void> {
    await this.write(LOGIN_FILE, "{}");
  }

  /** Makes the tools trust these certificates in addition to their own. */
  async trust(authorities: string | undefined): Promise<void> {
    if (authorities !== undefined) await this.write(AUTHORITIES_FILE, authorities);
  }

  /** The registry's manifest of an image, unparsed. */
  async ask({ reference, tls }: Source): Promise<string> {
    const options = ["--raw", `--tls-verify=${tls}`, ...this.#login("--authfile", "--no-creds")];
    const argv = ["/usr/bin/skopeo", "inspect", ...options, reference] as const;
    return await this.#run(argv, this.questionMaxMs, FETCH_DOCUMENT_MAX_BYTES);
  }

  /** Downloads missing blobs. Fails with the abort reason of `stalled`. */
  async copy({ reference, tls }: Source, stalled?: AbortSignal): Promise<void> {
    const isRemote = reference.startsWith("docker://");
    const options = [
      "--quiet",
      // Otherwise skopeo compresses an endless layer as fast as it arrives, and the disk never fills up.
      "--dest-oci-accept-uncompressed-layers",
      "--override-os=linux",
      `--override-arch=${imageArchitecture()}`,
      ...(isRemote ? [`--src-tls-verify=${tls}`, ...this.#login("--src-authfile", "--src-no-creds")] : []),
    ];
    const argv = ["/usr/bin/skopeo", "copy", ...options, reference, `oci:${LAYOUT}:${TAG}`] as const;
    await this.#run(argv, FETCH_COPY_MS, 0, stalled);
  }

  async unpack(): Promise<void> {
    const argv = ["/usr/bin/umoci", "raw", "unpack", "--image", `${LAYOUT}:${TAG}`, `/${UNPACKED}`] as const;
    await this.#run(argv, FETCH_UNPACK_MS, 0);
  }

  /** Makes an image of this archive as its only layer. */
  async pack(archive: string): Promise<void> {
    const image = ["--image", `${LAYOUT}:${TAG}`];
    await this.#run(["/usr/bin/umoci", "init", "--layout", LAYOUT], this.questionMaxMs, 0);
    await this.#run(["/usr/bin/umoci", "new", ...image], this.questionMaxMs, 0);
    await this.#run(["/usr/bin/umoci", "raw", "add-layer", ...image, archive], FETCH_COPY_MS, 0);
  }

  async hasBlob(digest: string): Promise<boolean> {
    return await this.commands.exists(placeOf(digest), this.signal);
  }

  async putBlob(digest: string, content: ReadableStream<Uint8Array>): Promise<void> {
    await this.commands.upload(placeOf(digest), "root", content, this.signal);
  }

  async readBlob(digest: string): Promise<ReadableStream<Uint8Array>> {
    return await this.commands.download(placeOf(digest), this.signal);
  }

  /** The configuration of the copied image, which skopeo may have converted. */
  async readConfig(): Promise<string> {
    const argv = ["/usr/bin/skopeo", "inspect", "--config", "--raw", `oci:${LAYOUT}:${TAG}`] as const;
    return await this.#run(argv, this.questionMaxMs, FETCH_DOCUMENT_MAX_BYTES);
  }

  async write(path: string, content: string | ReadableStream<Uint8Array>): Promise<void> {
    const stream = typeof content === "string" ? new Response(content).body : content;
    if (stream !== null) await this.commands.upload(path, "root", stream, this.signal);
  }

  #login(withFile: string, without: string): string[] {
    return this.#secrets.length === 0 ? [without] : [withFile, LOGIN_FILE];
  }

  /** Returns the tool's output, or nothing if `outputMaxBytes` is 0. */
  async #run(
    argv: readonly [string, ...string[]],
    timeoutMs: number,
    outputMaxBytes: number,
    stalled?: AbortSignal,
  ): Promise<string> {
    const late = AbortSignal.timeout(timeoutMs);
    const pieces: Uint8Array[] = [];
    let bytes = 0;
    let output = "";
    const take = (chunk: Uint8Array, from: "stdout" | "stderr") => {
      if (from === "stderr") output = (output + Buffer.from(chunk).toString()).slice(-FETCH_SAID_MAX_CHARS);
      else if (outputMaxBytes > 0) {
        bytes += chunk.length;
        if (bytes > outputMaxBytes) throw new Fault(422, `the answer is longer than ${outputMaxBytes} bytes`);
        pieces.push(chunk);
      }
    };
    const command = { argv, user: "root", cwd: "/", envVars: GO_ENV };
    try {
      const over = AbortSignal.any([this.signal, late, ...(stalled ? [stalled] : [])]);
      const end = await this.commands.run(command, take, over);
      if (end.exitCode === 0) return Buffer.concat(pieces).toString();
      const how = end.signal === "" ? "" : `the tool got ${end.signal}`;
      throw new Fault(422, reasonOf(output || how, this.#secrets));
    } catch (cause) {
      this.signal.throwIfAborted();
      stalled?.throwIfAborted();
      if (late.aborted) throw new Fault(422, `it took longer than ${timeoutMs / 1000} s`);
      throw cause;
    }
  }
}

function placeOf(digest: string): string {
  return `${LAYOUT}/blobs/${digest.replace(":", "/")}`;
}
