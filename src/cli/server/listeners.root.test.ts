/** The server's listeners. Needs root only to install the tool that makes certificates. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { jsonLog } from "../../base/log.ts";
import { freePort } from "../../base/testing/free-port.ts";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import type { Client } from "../../control/access/authentication.ts";
import { TrustedProxies } from "../../edge/routing/client-address.ts";
import { LocalAuthority } from "../../tls/local-authority.ts";
import { loadConfig } from "../settings/config.ts";
import { OwnFronts } from "../testing/local-fronts.ts";
import { Listeners } from "./listeners.ts";

const folder = folderOfFile("listeners");

function served(trustedProxies = new TrustedProxies([])) {
  const management = async ({ url }: Request, { address, fromTrustedProxy, isSecure }: Client) => {
    const request = isSecure ? url.replace(/^http:/, "https:") : url;
    return new Response(fromTrustedProxy ? "proxied" : request, { headers: { client: address } });
  };
  return { fronts: new OwnFronts({ management, trustedProxies }), log: jsonLog(() => undefined) };
}

function configOf(name: string, extra: Record<string, string> = {}) {
  const env = { SANDLOT_DATA: join(folder, name), SANDLOT_LISTEN: `127.0.0.1:${freePort()}`, ...extra };
  return loadConfig(env);
}

function occupied() {
  return Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => undefined } });
}

test("without a certificate there is no TLS, and nothing on its port", async () => {
  const taken = occupied();
  const listeners = await Listeners.open(
    configOf("plain", { SANDLOT_TLS_LISTEN: `127.0.0.1:${taken.port}` }),
    served(),
  );
  expect(listeners).toMatchObject({ tls: undefined });
  await listeners.stop(true);
  taken.stop(true);
});

test.each([
  ["127.0.0.1", "proxied"],
  ["127.0.0.2", "/health"],
])("the peer is a trusted proxy only if the setting names it: %s", async (proxy, answer) => {
  const config = configOf(proxy);
  const listeners = await Listeners.open(config, served(new TrustedProxies([proxy])));
  const headers = { "X-Forwarded-For": proxy };
  const request = await fetch(`http://127.0.0.1:${config.listen.port}/health`, { headers });
  expect(await request.text()).toContain(answer);
  await listeners.stop(true);
});

test("after sandlot tls both listeners serve the same, and the banner has domain and port", async () => {
  const port = freePort();
  const config = configOf("local", { SANDLOT_TLS_LISTEN: `127.0.0.1:${port}` });
  await new LocalAuthority(config.dataFolder).renew("another.localhost", Date.now());
  // A certificate for another domain, from before the setting was changed, is replaced.
  const listeners = await Listeners.open(config, served());
  const trust = `${config.dataFolder}-trust/ca.pem`;
  expect(listeners).toMatchObject({ tls: { domain: `sandlot.localhost:${port}`, trust } });
  const ca = await Bun.file(trust).text();
  const url = `https://api.sandlot.localhost:${port}/health`;
  expect(await (await fetch(url, { tls: { ca } } as RequestInit)).text()).toBe(url);
  const plain = await fetch(`http://127.0.0.1:${config.listen.port}/health`);
  expect([await plain.text(), plain.headers.get("client")]).toEqual([expect.stringContaining("/health"), "127.0.0.1"]);
  await listeners.stop(true);
  await expect(fetch(url, { tls: { ca } } as RequestInit)).rejects.toThrow();
});

test.each(["SANDLOT_LISTEN", "SANDLOT_TLS_LISTEN"])("a used port of %s is reported with the fix", async (setting) => {
  const taken = occupied();
  const ports = { SANDLOT_TLS_LISTEN: `127.0.0.1:${freePort()}`, [setting]: `127.0.0.1:${taken.port}` };
  const config = configOf(setting, ports);
  await new LocalAuthority(config.dataFolder).renew("sandlot.localhost", Date.now());
  const fix = `cannot listen on 127.0.0.1:${taken.port}. FIX: free the port, or choose one with ${setting}`;
  await expect(Listeners.open(config, served())).rejects.toThrow(fix);
  taken.stop(true);
});

test("a port in use by another server is not shared with it", async () => {
  const listen = `127.0.0.1:${freePort()}`;
  const listeners = await Listeners.open(configOf("shared", { SANDLOT_LISTEN: listen }), served());
  const again = Listeners.open(configOf("sharing", { SANDLOT_LISTEN: listen }), served());
  await expect(again).rejects.toThrow(`cannot listen on ${listen}. FIX: free the port`);
  await listeners.stop(true);
});

test("a certificate that cannot be used stops the start, with the reason", async () => {
  const config = configOf("broken", {
    SANDLOT_DOMAIN: "sandboxes.test",
    SANDLOT_TLS_CERT: "/nowhere/cert.pem",
    SANDLOT_TLS_KEY: "/nowhere/key.pem",
  });
  await expect(Listeners.open(config, served())).rejects.toThrow("/nowhere/cert.pem cannot be read");
});
