/** Fuzzes the parsers of the edge: sandbox names in client requests, and responses of sandboxes. */
import { expect } from "bun:test";
import { isIP } from "node:net";
import { fuzzText } from "../base/testing/fuzz.ts";
import { clientAddress, TrustedProxies } from "./routing/client-address.ts";
import { internalPath } from "./routing/control-path.ts";
import { addressOf } from "./routing/sandbox-address.ts";
import { signedLinkOf } from "./routing/signed-link.ts";

const ID = "i0123456789abcdefghij";

/** Undefined: no header can hold that. */
function headersOf(fields: Record<string, string>): Headers | undefined {
  try {
    return new Headers(fields);
  } catch {
    return undefined;
  }
}

fuzzText("a host name or a pair of headers is a sandbox id and a port, or neither", {
  seeds: [
    `3000-${ID}.example.com`,
    `49983-${ID}-client.x.y:8080`,
    "192-168-1-5.example.com",
    `0-${ID}.x`,
    `65536-${ID}.x`,
  ],
  check(host) {
    const [id = "", port = ""] = host.split("-");
    for (const fields of [{ host }, { "e2b-sandbox-id": id, "e2b-sandbox-port": port }]) {
      const address = addressOf(headersOf(fields as Record<string, string>) ?? new Headers());
      if (address === undefined || "problem" in address) continue;
      expect(address.sandboxId).toMatch(/^[a-z0-9]+$/);
      expect(Number.isInteger(address.port) && address.port > 0 && address.port < 65_536).toBe(true);
      if ("host" in fields)
        expect(host.trimStart().startsWith(`${String(address.port)}-${address.sandboxId}`) || /^0+/.test(host)).toBe(
          true,
        );
    }
  },
});

/** The path as read by a receiver that decodes it so often and normalises it. */
function decoded(path: string, times: number): string {
  let text = path.split("?")[0] ?? "";
  for (let more = times; more > 0; more--)
    text = text.replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  const kept: string[] = [];
  for (const part of text.replaceAll("\\", "/").split("/")) {
    if (part === "..") kept.pop();
    else if (part !== "" && part !== ".") kept.push(part);
  }
  return `/${kept.join("/")}`;
}

fuzzText("no spelling of a path reaches the control channel", {
  seeds: [
    "/control/ping",
    "/%63ontrol/configure",
    "/x/../control//journal?after=1",
    "/%2e%2e/%2563ontrol/renew",
    "/files",
  ],
  check(path) {
    // A text that is no path is rejected before.
    if (!path.startsWith("/") || internalPath(path) !== undefined) return;
    for (let times = 0; times < 3; times++) {
      expect(`${decoded(path, times).toLowerCase()}/`).not.toStartWith("/control/");
    }
  },
});

fuzzText("the client is the peer, or an address from a trusted proxy", {
  seeds: [
    "1.2.3.4, 10.0.0.1",
    "for=1.2.3.4;proto=https, for=10.0.0.1",
    'for="[2001:db8::1]:80";by=x, For=10.0.0.2',
    "unknown, 1.2.3.4:99",
    'for="_hidden\\"", for=5.6.7.8',
  ],
  check(text) {
    for (const name of ["x-forwarded-for", "forwarded"]) {
      const headers = headersOf({ [name]: text });
      if (headers === undefined) continue;
      expect(clientAddress("9.9.9.9", headers, new TrustedProxies(["10.0.0.0/8"]))).toBe("9.9.9.9");
      expect(isIP(clientAddress("::ffff:10.0.0.9", headers, new TrustedProxies(["10.0.0.0/8"])))).toBeGreaterThan(0);
    }
  },
});

fuzzText("a signed link is valid, or an ordinary request", {
  seeds: [
    "/files?path=a&signature=v1_x&signature_expiration=5",
    "/files?signature=",
    "/files?username=u&path=%2Fetc&signature=v1_%ff",
  ],
  check(target) {
    const link = signedLinkOf({ target, method: "GET", headers: new Headers() });
    if (link !== undefined) expect([typeof link.path, typeof link.signature]).toEqual(["string", "string"]);
  },
});
