/** Commands of common TLS clients, and what each prints if it trusts `rule.test` (services/trusted-site.cjs). */
import { GUEST_MOUNT } from "../../src/contract/runtime/guest-programs.ts";

type Client = readonly [name: string, command: string, prints: string];

const URL = "https://rule.test";
const FETCH = `fetch("${URL}/").then((r) => r.text()).then(console.log)`;
/** The guest's own binary is Bun. */
const BUN = `BUN_BE_BUN=1 LD_LIBRARY_PATH=${GUEST_MOUNT}/lib ${GUEST_MOUNT}/bin/guest`;
const VENDORED = "from pip._vendor import requests";

/** Of the template base. */
export const BASE_CLIENTS: readonly Client[] = [
  ["curl", `curl -sS ${URL}/`, "trusted"],
  ["curl as root by sudo, without variables", `sudo curl -sS ${URL}/`, "trusted"],
  ["wget", `wget -qO- ${URL}/`, "trusted"],
  ["openssl without variables", "sudo openssl s_client -connect rule.test:443 -verify_return_error < /dev/null", "OK"],
  ["git", `git ls-remote ${URL}/repo`, "refs/heads/main"],
  ["Node", `node -e '${FETCH}'`, "trusted"],
  ["Bun", `${BUN} -e '${FETCH}'`, "trusted"],
  ["urllib", `python3 -c 'import urllib.request as u; print(u.urlopen("${URL}/").read())'`, "trusted"],
  ["requests with its own roots", `python3 -c '${VENDORED}; print(requests.get("${URL}/").text)'`, "trusted"],
  [
    "apt",
    `/usr/lib/apt/apt-helper download-file ${URL}/file /tmp/fetched-by-apt && cat /tmp/fetched-by-apt`,
    "trusted",
  ],
];

/** Also of the template base; they take seconds. */
export const SLOW_BASE_CLIENTS: readonly Client[] = [
  ["pip", `pip index versions --disable-pip-version-check -i ${URL}/simple marker`, "marker (7.0)"],
  ["npm", `npm view marker version --registry ${URL}/`, "7.0.0"],
];

const JAVA = `public class Get { public static void main(String[] a) throws Exception {
  System.out.println(new String(new java.net.URI("${URL}/").toURL().openStream().readAllBytes())); } }`;
const GO = `package main
import ("fmt"; "io"; "net/http")
func main() { r, e := http.Get("${URL}/"); if e != nil { panic(e) }; b, _ := io.ReadAll(r.Body); fmt.Println(string(b)) }`;
const AIOHTTP = `import aiohttp, asyncio
async def main():
    async with aiohttp.ClientSession() as s, s.get("${URL}/") as r: print(await r.text())
asyncio.run(main())`;

/** Debian packages of MORE_CLIENTS. */
export const MORE_PACKAGES =
  "bash sudo passwd ca-certificates nodejs python3 python3-requests python3-httpx python3-aiohttp golang-go default-jdk-headless";

/** In an image of its own. */
export const MORE_CLIENTS: readonly Client[] = [
  ["requests", `python3 -c 'import requests; print(requests.get("${URL}/").text)'`, "trusted"],
  ["httpx", `python3 -c 'import httpx; print(httpx.get("${URL}/").text)'`, "trusted"],
  ["aiohttp", `python3 -c '${AIOHTTP}'`, "trusted"],
  ["Go", `cd /tmp && echo '${GO}' > get.go && GOCACHE=/tmp/go HOME=/tmp go run get.go`, "trusted"],
  ["Java", `cd /tmp && echo '${JAVA}' > Get.java && java Get.java`, "trusted"],
];
