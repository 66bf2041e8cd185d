/** AWS signature version 4 for a request without a query. Pure. */
import { createHmac } from "node:crypto";
import { sha256 } from "../../base/sha256.ts";

interface SignedRequest {
  method: "GET" | "POST";
  url: URL;
  /** Lower-case names. All are signed, with `host` and `x-amz-date`. */
  headers: Readonly<Record<string, string>>;
  body: string;
  service: string;
  region: string;
  accessKeyId: string;
  secretAccessKey: string;
  /** Milliseconds since 1970. */
  now: number;
}

const ALGORITHM = "AWS4-HMAC-SHA256";

/** The given headers with the date and the signature. */
export function awsSigned(request: SignedRequest): Record<string, string> {
  const { method, url, body, service, region, accessKeyId, secretAccessKey } = request;
  const date = `${new Date(request.now).toISOString().slice(0, 19).replace(/[-:]/g, "")}Z`;
  const headers = { ...request.headers, host: url.host, "x-amz-date": date };
  const sorted = Object.entries(headers).sort(([a], [b]) => (a < b ? -1 : 1));
  const names = sorted.map(([name]) => name).join(";");
  const canonical = [
    method,
    url.pathname,
    "",
    ...sorted.map(([name, value]) => `${name}:${value.trim()}`),
    "",
    names,
    sha256(body),
  ].join("\n");
  const scope = [date.slice(0, 8), region, service, "aws4_request"];
  const key = scope.reduce<string | Buffer>((secret, part) => hmac(secret, part), `AWS4${secretAccessKey}`);
  const digest = sha256(canonical);
  const signature = hmac(key, [ALGORITHM, date, scope.join("/"), digest].join("\n")).toString("hex");
  const credential = `${accessKeyId}/${scope.join("/")}`;
  const authorization = `${ALGORITHM} Credential=${credential}, SignedHeaders=${names}, Signature=${signature}`;
  return { ...request.headers, "x-amz-date": date, authorization };
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}
