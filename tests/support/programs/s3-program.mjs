/**
 * `node s3-program.mjs PACKAGE FOLDER`: the S3 server of this package, and before it a check of signatures (version 4),
 * because the package's own check rejects those of restic for whole buckets. Prints its port.
 */
import { createHash, createHmac } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";

const [, , packageFolder, directory] = process.argv;
const S3rver = createRequire(import.meta.url)(packageFolder);
const serve = new S3rver({ silent: true, directory, allowMismatchedSignatures: true }).callback();

/** The secret key of the package's one account. */
const SECRET_KEY = "S3RVER";
const AUTHORIZATION =
  /Credential=[^/]+\/(\d+)\/([^/]+)\/(\w+)\/aws4_request, ?SignedHeaders=([\w;-]+), ?Signature=(\w+)/;
const MISMATCH =
  "<Error><Code>SignatureDoesNotMatch</Code><Message>The request signature we calculated does not match the signature " +
  "you provided. Check your key and signing method.</Message></Error>";

const hmac = (key, text) => createHmac("sha256", key).update(text).digest();

/** Requests without a signature are left to the package. */
function isMismatched({ method, url, headers }) {
  const [, date, region, service, names, signature] = AUTHORIZATION.exec(headers.authorization ?? "") ?? [];
  if (signature === undefined) return false;
  const [path, query = ""] = url.split("?");
  const parameters = query === "" ? [] : query.split("&").map((each) => (each.includes("=") ? each : `${each}=`));
  const signed = names.split(";").map((name) => `${name}:${headers[name]}\n`);
  const request = [method, path, parameters.sort().join("&"), signed.join(""), names, headers["x-amz-content-sha256"]];
  const digest = createHash("sha256").update(request.join("\n")).digest("hex");
  const scope = `${date}/${region}/${service}/aws4_request`;
  const key = [date, region, service, "aws4_request"].reduce(hmac, `AWS4${SECRET_KEY}`);
  return hmac(key, `AWS4-HMAC-SHA256\n${headers["x-amz-date"]}\n${scope}\n${digest}`).toString("hex") !== signature;
}

const server = createServer((request, response) => {
  if (isMismatched(request)) response.writeHead(403, { "Content-Type": "application/xml" }).end(MISMATCH);
  else serve(request, response);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
