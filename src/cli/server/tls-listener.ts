/**
 * The TLS listener. It polls the files of its certificate, however they are replaced (certbot swaps links), and starts
 * over with a new certificate if that is valid. Bun cannot change the certificate of a listener, so a second one begins
 * on the same port and gets all new connections, and the first one stops listening.
 */
import type { Clock, Timer } from "../../base/clock.ts";
import { described, type Log } from "../../base/log.ts";
import { Fault } from "../../contract/fault.ts";
import type { ClientListener } from "../../edge/front/listeners.ts";
import { type Certificate, type CertificateFiles, digestOf, flawOf, readCertificate } from "../../tls/certificate.ts";

/** Interval between checks of the certificate files. */
export const CERTIFICATE_CHECK_MS = 5_000;
/** How long a replaced listener is drained: connections being established still reach it. */
export const DRAINING_LISTENER_MS = 30_000;

interface TlsOptions {
  domain: string;
  files: CertificateFiles;
  /** Starts to listen with this certificate, on a shared port. The latest listener gets all new connections. */
  begin(certificate: Certificate): Promise<ClientListener>;
  clock: Clock;
  log: Log;
}

export class TlsListener {
  #current: ClientListener;
  #draining: { server: ClientListener; timer: Timer } | undefined;
  /** Closed listeners that still carry earlier connections. */
  readonly #left = new Set<ClientListener>();
  #digest: string | undefined;
  /** Digest of the files that were last found and rejected. */
  #refused: { digest: string; isReported: boolean } | undefined;
  #nextCheck: Timer;
  #isStopped = false;

  private constructor(
    private readonly options: TlsOptions,
    server: ClientListener,
    digest: string | undefined,
  ) {
    this.#current = server;
    this.#digest = digest;
    this.#nextCheck = this.#checkLater();
  }

  static async open(options: TlsOptions): Promise<TlsListener> {
    const { files, domain, clock, log } = options;
    // Before reading: if the files change meanwhile, the next check notices.
    const digest = digestOf(files);
    const certificate = readCertificate(files);
    const flaw = flawOf(certificate, domain, clock.now());
    if (flaw !== undefined) {
      log.write({ level: "error", event: "clients will refuse the certificate", file: files.cert, reason: flaw });
    }
    const server = await options.begin(certificate);
    return new TlsListener(options, server, digest);
  }

  /** Finishes current requests, unless `force`. */
  async stop(force: boolean): Promise<void> {
    this.#isStopped = true;
    this.#nextCheck.cancel();
    this.#draining?.timer.cancel();
    const leaving = this.#draining === undefined ? [] : [this.#draining.server];
    await Promise.all([...this.#left, ...leaving, this.#current].map((server) => server.stop(force)));
  }

  #checkLater(): Timer {
    return this.options.clock.after(CERTIFICATE_CHECK_MS, () => {
      void this.#check().then(() => {
        if (!this.#isStopped) this.#nextCheck = this.#checkLater();
      });
    });
  }

  async #check(): Promise<void> {
    const { files, log } = this.options;
    const digest = digestOf(files) ?? "";
    if (digest === this.#digest) {
      this.#refused = undefined;
      return;
    }
    // The kernel leads to two listeners at most.
    if (this.#draining !== undefined) return;
    try {
      await this.#change(digest);
    } catch (error) {
      // Certificate and key are not written at the same moment, so an error is only reported, once, if it persists.
      const isSame = this.#refused?.digest === digest;
      if (isSame && this.#refused?.isReported === false) {
        const event = "the new certificate was rejected; the previous one stays";
        log.write({ level: "error", event, file: files.cert, error: described(error) });
      }
      this.#refused = { digest, isReported: isSame };
    }
  }

  #leave(server: ClientListener): void {
    this.#draining = undefined;
    this.#left.add(server);
    void server.stop(false).then(() => this.#left.delete(server));
  }

  async #change(digest: string): Promise<void> {
    const { files, domain, clock, log, begin } = this.options;
    const certificate = readCertificate(files);
    const flaw = flawOf(certificate, domain, clock.now());
    if (flaw !== undefined) throw new Fault(400, `clients would refuse ${files.cert}: ${flaw}`);
    const server = this.#current;
    const next = await begin(certificate);
    if (this.#isStopped) return await next.stop(true);
    this.#current = next;
    this.#digest = digest;
    this.#refused = undefined;
    this.#draining = { server, timer: clock.after(DRAINING_LISTENER_MS, () => this.#leave(server)) };
    const until = new Date(certificate.validUntilMs).toISOString();
    log.write({ level: "info", event: "the certificate was changed", file: files.cert, until });
  }
}
