/** A real OpenID Connect issuer on loopback (oidc-provider), and a person who signs in there. */
import type { RequestListener } from "node:http";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

const REDIRECTS_MAX = 10;

export class TestIssuer implements AsyncDisposable {
  readonly clientSecret = "a secret of the test's client";

  private constructor(
    readonly url: string,
    private readonly server: Server,
  ) {}

  static async open(redirectUri: string): Promise<TestIssuer> {
    const listener: { handle: RequestListener } = { handle: (_, response) => response.end() };
    const server = createServer((request, response) => listener.handle(request, response));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const issuer = new TestIssuer(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, server);
    // Without types of its own.
    const { default: Provider } = await import("oidc-provider" as string);
    const provider = new Provider(issuer.url, {
      clients: [{ client_id: "sandlot", client_secret: issuer.clientSecret, redirect_uris: [redirectUri] }],
      claims: { openid: ["sub"], email: ["email", "email_verified"] },
      pkce: { required: () => true },
      cookies: { keys: ["of a test"] },
      findAccount: (_: unknown, id: string) => ({
        accountId: id,
        claims: () => ({ sub: id, email: id, email_verified: !id.startsWith("unverified") }),
      }),
    });
    listener.handle = provider.callback();
    return issuer;
  }

  /** As a person with a browser: signs in and consents. Returns the address to which the issuer sends the browser. */
  async signIn(address: string, email: string): Promise<string> {
    const cookies = new Map<string, string>();
    let response = await this.#ask(address, cookies);
    for (let step = 0; step < REDIRECTS_MAX; step++) {
      const location = response.headers.get("location");
      if (location === null) {
        const page = await response.text();
        const [, action = "", prompt = ""] = /action="([^"]+)"[\s\S]*name="prompt" value="(\w+)"/.exec(page) ?? [];
        const body = new URLSearchParams({ prompt, ...(prompt === "login" && { login: email, password: "any" }) });
        response = await this.#ask(new URL(action, this.url).href, cookies, { method: "POST", body });
        continue;
      }
      const next = new URL(location, this.url).href;
      if (!next.startsWith(this.url)) return next;
      response = await this.#ask(next, cookies);
    }
    throw new Error(`the issuer led to ${response.url} and not back`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  async #ask(address: string, cookies: Map<string, string>, init: RequestInit = {}): Promise<Response> {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(address, { ...init, redirect: "manual", headers: { cookie } });
    for (const set of response.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(set) ?? [];
      cookies.set(name, value);
    }
    return response;
  }
}
