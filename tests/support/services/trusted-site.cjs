/**
 * Runs inside a sandbox: a site with TLS on port 443 of loopback that package managers and git can use. Its key and
 * certificate are the arguments.
 */
const { readFileSync } = require("node:fs");
const { createServer } = require("node:https");

const [key, cert] = process.argv.slice(2).map((path) => readFileSync(path));
const COMMIT = "0123456789abcdef0123456789abcdef01234567";
const PACKAGE = { name: "marker", version: "7.0.0", dist: { tarball: "https://rule.test/marker.tgz" } };
const PAGES = {
  "/repo/info/refs": ["text/plain", `${COMMIT}\trefs/heads/main\n`],
  "/repo/HEAD": ["text/plain", "ref: refs/heads/main\n"],
  "/simple/marker/": ["text/html", '<a href="/marker-7.0-py3-none-any.whl">marker-7.0-py3-none-any.whl</a>'],
  "/marker": [
    "application/json",
    JSON.stringify({ name: "marker", "dist-tags": { latest: "7.0.0" }, versions: { "7.0.0": PACKAGE } }),
  ],
};

createServer({ key, cert }, ({ url }, response) => {
  const [type, body] = PAGES[url.split("?")[0]] ?? ["text/plain", "trusted"];
  response.writeHead(200, { "content-type": type });
  response.end(body);
}).listen(443, "127.0.0.1", () => console.log("listening"));
