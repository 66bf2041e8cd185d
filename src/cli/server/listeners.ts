/**
 * The listeners of the server: plain HTTP, and TLS when there is a certificate, the operator's or one of `sandlot tls`.
 * Both serve the same: a host name PORT-ID.… or the headers of a sandbox select that sandbox, everything else is for
 * the management API.
 */
import { systemClock } from "../../base/clock.ts";
import { described, type Log } from "../../base/log.ts";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import type { ClientListeners } from "../../edge/front/listeners.ts";
import { LocalAuthority } from "../../tls/local-authority.ts";
import type { Listen } from "../settings/addresses.ts";
import type { Config } from "../settings/config.ts";
import type { TlsAddresses } from "./banner.ts";
import { TlsListener } from "./tls-listener.ts";

/** How long a management connection may be idle, or its body slow. Bun's maximum. */
export const IDLE_SECONDS = 255;
/** Interval between checks whether the certificate of `sandlot tls` is about to expire. */
const RENEW_CHECK_MS = 12 * 3_600_000;
/** How long, and how often, a port is checked that processes of a killed server may still hold. */
const PORT_FREE_MS = scaled(1_000);
const PORT_CHECK_MS = 20;

const HTTPS_PORT = 443;

interface ListenerOptions {
  fronts: ClientListeners;
  /** Idle timeout of a connection, if not the default. Streams to sandboxes may be idle for longer. */
  idleSeconds?: number;
  log: Log;
}

export class Listeners {
  private constructor(
    readonly listen: Listen,
    /** Undefined without a certificate. */
    readonly tls: TlsAddresses | undefined,
    readonly stop: (force: boolean) => Promise<void>,
  ) {}

  static async open(config: Config, served: ListenerOptions): Promise<Listeners> {
    const { listen } = config;
    const idleMs = (served.idleSeconds ?? IDLE_SECONDS) * 1000;
    const plain = await listening(listen, "SANDLOT_LISTEN", () => served.fronts.begin({ ...listen, idleMs }));
    try {
      const tls = await withTls(config, served, idleMs);
      const stop = async (force: boolean) => {
        await Promise.all([plain.stop(force), tls?.stop(force)]);
      };
      return new Listeners(listen, tls, stop);
    } catch (thrown) {
      await plain.stop(true);
      throw thrown;
    }
  }
}

/** Undefined: there is no certificate. */
async function withTls(
  config: Config,
  served: ListenerOptions,
  idleMs: number,
): Promise<(TlsAddresses & Pick<Listeners, "stop">) | undefined> {
  const { domain, tlsListen: listen, certificate } = config.addresses;
  const local = certificate === undefined ? LocalAuthority.find(config.dataFolder) : undefined;
  const files = certificate ?? local?.files;
  if (files === undefined) return undefined;
  await renew(local, domain, served.log);
  const tls = await listening(listen, "SANDLOT_TLS_LISTEN", () =>
    TlsListener.open({
      domain,
      files,
      begin: ({ cert, key }) => served.fronts.begin({ ...listen, idleMs, tls: { cert, key } }),
      clock: systemClock,
      log: served.log,
    }),
  );
  const renewing = setInterval(() => void renew(local, domain, served.log), RENEW_CHECK_MS);
  return {
    domain: listen.port === HTTPS_PORT ? domain : `${domain}:${listen.port}`,
    trust: local?.trustFile,
    stop(force) {
      clearInterval(renewing);
      return tls.stop(force);
    },
  };
}

/** The listener notices a new certificate itself. If renewal fails, the old one may still be valid for a while. */
async function renew(local: LocalAuthority | undefined, domain: string, log: Log): Promise<void> {
  try {
    await local?.renew(domain, systemClock.now());
  } catch (error) {
    log.write({ level: "error", event: "the certificate could not be renewed", error: described(error) });
  }
}

/** Fault 409 with the remedy while another program listens there. */
export async function requireFree(listen: Listen, fix: string): Promise<void> {
  await untilFree(listen).catch((cause: unknown) => {
    throw new Fault(409, `cannot listen on ${listen.hostname}:${listen.port}. ${fix}`, { cause });
  });
}

async function listening<T>({ hostname, port }: Listen, setting: string, begin: () => Promise<T>): Promise<T> {
  try {
    await untilFree({ hostname, port });
    return await begin();
  } catch (cause) {
    if (cause instanceof Fault) throw cause;
    const fix = `FIX: free the port, or choose one with ${setting}`;
    throw new Fault(500, `cannot listen on ${hostname}:${port}. ${fix}`, { cause });
  }
}

/** With SO_REUSEPORT, another server would silently share the port. A killed server leaves it after a moment. */
async function untilFree({ hostname, port }: Listen): Promise<void> {
  const lastMs = performance.now() + PORT_FREE_MS;
  for (;;) {
    try {
      Bun.listen({ hostname, port, socket: { data: () => undefined } }).stop(true);
      return;
    } catch (cause) {
      if (performance.now() > lastMs) throw cause;
    }
    await Bun.sleep(PORT_CHECK_MS);
  }
}
