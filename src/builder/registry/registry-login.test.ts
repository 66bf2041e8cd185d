import { afterAll, describe, expect, test } from "bun:test";
import { createVerify, generateKeyPairSync } from "node:crypto";
import { Fault } from "../../contract/fault.ts";
import type { RegistryCredentials } from "../../contract/internal/host.ts";
import { awsSigned } from "./aws-signature.ts";
import { LOGIN_ANSWER_MAX_BYTES, LOGIN_KEY_MAX_CHARS, registryLogin } from "./registry-login.ts";

const NOW = Date.UTC(2026, 0, 2, 3, 4, 5);
const SECRET = "hush/hush+secret";
const AWS = { type: "aws", accessKeyId: "AKIDEXAMPLE", secretAccessKey: SECRET, region: "eu-west-1" } as const;

interface Asked {
  headers: Headers;
  body: string;
}
let requests: Asked[] = [];
let response: (body: string) => Response | Promise<Response> = () => new Response();
const stub = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  async fetch(request) {
    const body = await request.text();
    requests.push({ headers: request.headers, body });
    return await response(body);
  },
});
afterAll(() => stub.stop(true));
const clouds = { aws: () => stub.url.href, google: stub.url.href };

/** The requests to the cloud, and the resulting login. */
async function login(credentials: RegistryCredentials, reply: typeof response) {
  [requests, response] = [[], reply];
  const result = await registryLogin(credentials, NOW, clouds).catch((error: unknown) => error);
  return { result, requested: requests[0] };
}

test("a name and a password are used unchanged", async () => {
  const { result, requested } = await login({ type: "registry", username: "u", password: "p:q" }, () => new Response());
  expect(result).toEqual({ username: "u", password: "p:q" });
  expect(requested).toBeUndefined();
});

describe("AWS", () => {
  const token = (text: string) => () =>
    Response.json({ authorizationData: [{ authorizationToken: Buffer.from(text).toString("base64") }] });

  test("gives a token for a signed request", async () => {
    const { result, requested } = await login(AWS, token("AWS:to:ken"));
    expect(result).toEqual({ username: "AWS", password: "to:ken" });
    const { authorization, ...headers } = awsSigned({
      method: "POST",
      url: stub.url,
      headers: {
        "content-type": "application/x-amz-json-1.1",
        "x-amz-target": "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken",
      },
      body: "{}",
      service: "ecr",
      now: NOW,
      ...AWS,
    });
    expect(requested?.body).toBe("{}");
    expect(requested?.headers.get("authorization")).toBe(authorization ?? "");
    for (const [name, value] of Object.entries(headers)) expect(requested?.headers.get(name)).toBe(value);
  });

  test("is not asked if the region would change the host", async () => {
    for (const region of ["evil.example/", "us-east-1.evil.example", "", "US-EAST-1", "a b"]) {
      const { result, requested } = await login({ ...AWS, region }, token("AWS:x"));
      expect(result).toMatchObject({ status: 400, message: expect.stringContaining("AWS region") });
      expect(requested).toBeUndefined();
    }
  });

  test("is an error without a token", async () => {
    for (const reply of [() => Response.json({}), token("nocolon"), () => new Response("<html>")]) {
      const { result } = await login(AWS, reply);
      expect(result).toMatchObject({ status: 502, message: "AWS answered without a token for its registry" });
    }
  });
});

describe("Google", () => {
  const keys = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const pem = keys.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  const account = (fields: Record<string, unknown>): RegistryCredentials => ({
    type: "gcp",
    serviceAccountJson: JSON.stringify({ client_email: "robot@project", private_key: pem, ...fields }),
  });

  test("gives a token for a signed assertion, whatever address the account names", async () => {
    const { result, requested } = await login(account({ token_uri: "http://127.0.0.1:1/" }), () =>
      Response.json({ access_token: "ya29.token" }),
    );
    expect(result).toEqual({ username: "oauth2accesstoken", password: "ya29.token" });
    const form = new URLSearchParams(requested?.body);
    expect(form.get("grant_type")).toBe("urn:ietf:params:oauth:grant-type:jwt-bearer");
    const [head = "", claims = "", signature = ""] = form.get("assertion")?.split(".") ?? [];
    const isSigned = createVerify("RSA-SHA256").update(`${head}.${claims}`);
    expect(isSigned.verify(keys.publicKey, signature, "base64url")).toBe(true);
    expect(JSON.parse(Buffer.from(claims, "base64url").toString())).toEqual({
      iss: "robot@project",
      scope: "https://www.googleapis.com/auth/cloud-platform",
      aud: "https://oauth2.googleapis.com/token",
      iat: NOW / 1000,
      exp: NOW / 1000 + 3600,
    });
  });

  test("is not asked with an invalid account", async () => {
    const accounts = [
      { type: "gcp", serviceAccountJson: "nonsense" } as const,
      account({ client_email: 1 }),
      account({ private_key: `no ${SECRET}` }),
      account({ private_key: pem + "\n".repeat(LOGIN_KEY_MAX_CHARS) }),
    ];
    for (const credentials of accounts) {
      const { result, requested } = await login(credentials, () => new Response());
      expect(result).toMatchObject({ status: 400, message: expect.stringContaining("service account") });
      expect(requested).toBeUndefined();
    }
  });
});

describe("an exchange that fails", () => {
  const REFUSALS: [string, () => Response, number, RegExp][] = [
    [
      "is refused",
      () => Response.json({ __type: "UnrecognizedClientException" }, { status: 400 }),
      400,
      /status 400, Unr/,
    ],
    ["is too much", () => new Response("", { status: 429 }), 502, /status 429/],
    ["breaks", () => new Response(`oh no ${SECRET}`, { status: 500 }), 502, /status 500$/],
    ["is sent elsewhere", () => Response.redirect("http://127.0.0.1:1/"), 502, /status 302/],
    ["never ends", () => new Response("x".repeat(LOGIN_ANSWER_MAX_BYTES + 1)), 502, /longer than/],
  ];
  for (const [what, reply, status, message] of REFUSALS) {
    test(`is reported when it ${what}, without a secret`, async () => {
      const { result } = await login(AWS, reply);
      expect(result).toBeInstanceOf(Fault);
      expect(result).toMatchObject({ status, message: expect.stringMatching(message) });
      expect(Bun.inspect(result)).not.toContain(SECRET);
    });
  }

  test("is an error if the registry does not answer", async () => {
    const result = await registryLogin(AWS, NOW, { ...clouds, aws: () => "http://127.0.0.1:1/" }).catch((e) => e);
    expect(result).toMatchObject({ status: 502, message: expect.stringContaining("no way at 127.0.0.1:1") });
  });
});
