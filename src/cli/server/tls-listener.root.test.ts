/** The TLS listener. Needs root only to install the tool that makes certificates. */
import { beforeAll, expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { connect as connectHttp2 } from "node:http2";
import { join } from "node:path";
import { connect } from "node:tls";
import { jsonLog } from "../../base/log.ts";
import { freePort } from "../../base/testing/free-port.ts";
import { ManualClock } from "../../base/testing/manual-clock.ts";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { untilTrue } from "../../base/testing/until.ts";
import type { Certificate, CertificateFiles } from "../../tls/certificate.ts";
import { routeToNewestListener } from "../../tls/shared-port.ts";
import { CertbotFolder, makeCertificate } from "../../tls/testing/certificates.ts";
import { CERTIFICATE_CHECK_MS, DRAINING_LISTENER_MS, TlsListener } from "./tls-listener.ts";

const DOMAIN = "sandboxes.test";
const CHANGES = 12;
const CALLERS = 6;

const folder = folderOfFile("tls");
const made: Record<string, CertificateFiles> = {};
beforeAll(async () => {
  for (const name of ["first", "second"]) made[name] = await makeCertificate(folder, { name, domain: DOMAIN });
  made.foreign = await makeCertificate(folder, { name: "foreign", domain: "elsewhere.test" });
});

const filesOf = (name: string): CertificateFiles => made[name] ?? { cert: "", key: "" };

let folders = 0;

/** A listener on the files of a folder like certbot's, with the clock in the test's hands. */
class ListenerUnderTest implements AsyncDisposable {
  readonly certbot = new CertbotFolder(join(folder, String(++folders)), DOMAIN);
  readonly clock = new ManualClock(Date.now());
  readonly log: string[] = [];
  readonly port = freePort();
  /** Each piece that a stream gives is asked for here. */
  readonly pieces = new Map<string, PromiseWithResolvers<void>>();
  #listener: TlsListener | undefined;

  static async open(): Promise<ListenerUnderTest> {
    const listening = new ListenerUnderTest();
    const { certbot, port, clock, log } = listening;
    certbot.renew(filesOf("first"));
    listening.#listener = await TlsListener.open({
      domain: DOMAIN,
      files: certbot.files,
      begin: (tls) => begin(port, tls, (request) => listening.answer(request)),
      clock,
      log: jsonLog((line) => log.push(line)),
    });
    return listening;
  }

  answer(request: Request): Response {
    if (!request.url.endsWith("/stream")) return new Response("answered");
    let pieces = 0;
    return new Response(
      new ReadableStream({
        pull: async (controller) => {
          if (pieces === 3) return controller.close();
          if (pieces++ > 0) await this.piece(pieces).promise;
          controller.enqueue(`piece ${pieces}`);
        },
      }),
    );
  }

  piece(number: number): PromiseWithResolvers<void> {
    const name = String(number);
    const piece = this.pieces.get(name) ?? Promise.withResolvers<void>();
    this.pieces.set(name, piece);
    return piece;
  }

  get(path: string): Promise<Response> {
    const init = { keepalive: false, tls: { rejectUnauthorized: false } };
    return fetch(`https://127.0.0.1:${this.port}${path}`, init as RequestInit);
  }

  /** The files are looked at once more. */
  async advanceToCheck(): Promise<void> {
    await this.clock.advance(CERTIFICATE_CHECK_MS, async () => undefined);
  }

  async untilLeft(): Promise<void> {
    await this.clock.advance(DRAINING_LISTENER_MS, async () => undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#listener?.stop(true);
  }
}

async function begin(port: number, tls: Certificate, response: (request: Request) => Response) {
  const listen = { hostname: "127.0.0.1", port, tls: { cert: tls.cert, key: tls.key } };
  const server = Bun.serve({ ...listen, http2: true, reusePort: true, fetch: response });
  routeToNewestListener(port);
  return { stop: (force: boolean) => server.stop(force) };
}

/** Whose certificate a new connection is shown. */
async function shownAt(port: number): Promise<string> {
  const socket = connect({ host: "127.0.0.1", port, rejectUnauthorized: false });
  try {
    await new Promise((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
    return String(socket.getPeerCertificate().subject.CN);
  } finally {
    socket.destroy();
  }
}

test("a renewed certificate is served from the next check on, and open requests continue", async () => {
  await using listening = await ListenerUnderTest.open();
  expect(await shownAt(listening.port)).toBe("first");
  const session = connectHttp2(`https://127.0.0.1:${listening.port}`, { rejectUnauthorized: false });
  const pieces = session.request({ ":path": "/stream" })[Symbol.asyncIterator]();
  const next = async () => String((await pieces.next()).value ?? "");
  expect(await next()).toBe("piece 1");

  listening.certbot.renew(filesOf("second"));
  expect(await shownAt(listening.port)).toBe("first");
  await listening.advanceToCheck();
  expect(await shownAt(listening.port)).toBe("second");
  listening.piece(2).resolve();
  expect(await next()).toBe("piece 2");

  await listening.untilLeft();
  expect(await shownAt(listening.port)).toBe("second");
  listening.piece(3).resolve();
  expect(await next()).toBe("piece 3");
  expect(await next()).toBe("");
  session.close();
  expect(listening.log.map((line) => JSON.parse(line).event)).toEqual(["the certificate was changed"]);
});

test("a third certificate waits until the first listener has closed, whose requests continue", async () => {
  await using listening = await ListenerUnderTest.open();
  const body = (await listening.get("/stream")).text();
  for (const name of ["second", "first"]) {
    listening.certbot.renew(filesOf(name));
    await listening.advanceToCheck();
    expect(await shownAt(listening.port)).toBe("second");
  }
  await listening.untilLeft();
  await listening.advanceToCheck();
  expect(await shownAt(listening.port)).toBe("first");
  for (const number of [2, 3]) listening.piece(number).resolve();
  expect(await body).toBe("piece 1piece 2piece 3");
});

test("an invalid pair is rejected once, the previous one stays, and a valid one is used later", async () => {
  await using listening = await ListenerUnderTest.open();
  listening.certbot.link("privkey", filesOf("second").key);
  await listening.advanceToCheck();
  // It may be half written.
  expect(listening.log).toEqual([]);
  for (let looks = 0; looks < 3; looks++) await listening.advanceToCheck();
  expect(listening.log).toHaveLength(1);
  expect(listening.log[0]).toContain("the new certificate was rejected; the previous one stays");
  expect(listening.log[0]).toContain("is not the one of the certificate in");
  expect(await shownAt(listening.port)).toBe("first");

  listening.certbot.link("fullchain", filesOf("second").cert);
  await listening.advanceToCheck();
  expect(await shownAt(listening.port)).toBe("second");
});

test.each([
  ["is for other names", "foreign", "it is not for *.sandboxes.test"],
  ["is no certificate", "nonsense", "holds no certificate in PEM"],
  ["is not there", "missing", "cannot be read"],
])("a certificate that %s is refused", async (_what, name, reason) => {
  await using listening = await ListenerUnderTest.open();
  const { cert, key } = listening.certbot.files;
  if (name === "foreign") listening.certbot.renew(filesOf("foreign"));
  else if (name === "nonsense") writeFileSync(cert, "nonsense");
  else rmSync(key);
  await listening.advanceToCheck();
  await listening.advanceToCheck();
  expect(listening.log).toHaveLength(1);
  expect(listening.log[0]).toContain(reason);
  expect(await shownAt(listening.port)).toBe("first");
});

test("no connection is refused while certificates change", async () => {
  await using listening = await ListenerUnderTest.open();
  const answered = Array.from({ length: CALLERS }, () => 0);
  const failed: string[] = [];
  let isOver = false;
  const callers = answered.map(async (_none, caller) => {
    while (!isOver) {
      await listening
        .get("/")
        .then((response) => response.text())
        .catch((error: unknown) => failed.push(String(error)));
      answered[caller] = (answered[caller] ?? 0) + 1;
    }
  });
  /** Resolves when every caller has opened a new connection, so that none predates this call. */
  const more = async () => {
    const before = [...answered];
    await untilTrue(() => !answered.some((count, caller) => count < (before[caller] ?? 0) + 2));
  };
  for (let change = 0; change < CHANGES; change++) {
    await more();
    listening.certbot.renew(filesOf(change % 2 === 0 ? "second" : "first"));
    await listening.advanceToCheck();
    await more();
    await listening.untilLeft();
  }
  await more();
  isOver = true;
  await Promise.all(callers);
  expect(failed).toEqual([]);
  expect(listening.log).toHaveLength(CHANGES);
});

test("a certificate that clients will reject is served at the start, with a warning", async () => {
  await using listening = await ListenerUnderTest.open();
  listening.certbot.renew(filesOf("foreign"));
  const log: string[] = [];
  const port = freePort();
  const second = await TlsListener.open({
    domain: DOMAIN,
    files: listening.certbot.files,
    begin: (tls) => begin(port, tls, () => new Response()),
    clock: new ManualClock(Date.now()),
    log: jsonLog((line) => log.push(line)),
  });
  expect(await shownAt(port)).toBe("foreign");
  await second.stop(true);
  expect(log[0]).toContain("clients will refuse the certificate");
});
