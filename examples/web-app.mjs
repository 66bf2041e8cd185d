// A web app in a sandbox, seen through its URL while it is being changed.
import { Sandbox } from "e2b";

const PORT = 8000;
const PAGE = (title) => `<!doctype html><title>${title}</title><h1>${title}</h1>`;

const sandbox = await Sandbox.create();
try {
  // What an agent would write. Any server will do: whatever listens on a port has a URL.
  await sandbox.files.write("site/index.html", PAGE("First draft"));
  await sandbox.commands.run(`python3 -m http.server ${PORT} --directory site`, { background: true, timeoutMs: 0 });

  // For a browser; on a server with TLS, https://.
  console.log(`preview: http://${sandbox.getHost(PORT)}/`);

  // For a program on Node, which may not resolve names below localhost: the same by headers.
  const headers = { "E2b-Sandbox-Id": sandbox.sandboxId, "E2b-Sandbox-Port": String(PORT) };
  const visit = () => fetch(process.env.E2B_SANDBOX_URL, { headers });

  // Until something listens, the answer is 502.
  let response = await visit();
  while (response.status === 502) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    response = await visit();
  }
  console.log(`seen: ${titleOf(await response.text())}`);

  await sandbox.files.write("site/index.html", PAGE("Second draft"));
  console.log(`seen: ${titleOf(await (await visit()).text())}`);
} finally {
  await sandbox.kill();
}

function titleOf(page) {
  return page.match(/<title>(.*)<\/title>/)?.[1];
}
