/** Certificates of the test internet: an authority, and a certificate from it for every name and address. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "../../system/command.ts";
import { NAMES } from "./internet-names.ts";
import { INTERNET_ADDRESSES } from "./outer-network.ts";

const KIND = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 2".split(" ");

/** Writes the authority's certificate to authority.crt in the folder. */
export async function makeCertificate(folder: string): Promise<{ cert: string; key: string }> {
  const file = (name: string) => join(folder, name);
  const request = (name: string, ...more: string[]) => {
    const files = ["-keyout", file(`${name}.key`), "-out", file(`${name}.crt`)];
    return run(["openssl", "req", ...KIND, "-subj", `/CN=${name} of the tests`, ...files, ...more]);
  };
  const names = [...Object.keys(NAMES), "*.wild.test", "*.rebind.test"].map((name) => `DNS:${name}`);
  const subject = [...names, ...INTERNET_ADDRESSES.map((address) => `IP:${address}`)].join(",");
  await request("authority");
  const signed = ["-CA", file("authority.crt"), "-CAkey", file("authority.key")];
  const ends = ["-addext", "basicConstraints=critical,CA:false"];
  await request("web", ...signed, "-addext", `subjectAltName=${subject}`, ...ends);
  return { cert: readFileSync(file("web.crt"), "utf8"), key: readFileSync(file("web.key"), "utf8") };
}
