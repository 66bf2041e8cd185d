/**
 * Runs inside a sandbox: a web server on port argv[2] of host argv[3].
 *   /echo    what was asked, as JSON: method, target, headers, and the body's length and SHA-256
 *   /events  server-sent events; each GET of /next lets one more go
 *   /status/N, /redirect, /cookies
 */
const { createHash } = require("node:crypto");
const { createServer } = require("node:http");

const [, , port, host] = process.argv;
const listeners = new Set();
let count = 0;

async function echo(request, response) {
  const hash = createHash("sha256");
  let length = 0;
  for await (const piece of request) {
    hash.update(piece);
    length += piece.length;
  }
  const { method, url, headers } = request;
  response.setHeader("Content-Type", "application/json");
  response.end(JSON.stringify({ host, method, url, headers, length, sha256: hash.digest("hex") }));
}

createServer((request, response) => {
  const path = request.url.split("?")[0];
  if (path === "/events") {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write("data: begin\n\n");
    listeners.add(response);
    response.on("close", () => listeners.delete(response));
  } else if (path === "/next") {
    count += 1;
    for (const listener of listeners) listener.write(`data: ${count}\n\n`);
    response.end(String(count));
  } else if (path.startsWith("/status/")) {
    response.writeHead(Number(path.slice(8)), { "X-Own": "kept" }).end("own words");
  } else if (path === "/redirect") {
    response.writeHead(302, { Location: "/elsewhere" }).end();
  } else if (path === "/cookies") {
    response.writeHead(200, { "Set-Cookie": ["a=1; Path=/", "b=2"] }).end();
  } else echo(request, response).catch((error) => response.destroy(error));
}).listen(Number(port), host, () => console.log("listening"));
