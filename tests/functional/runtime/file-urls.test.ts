/** Signed links to files: a link allows reading or writing that one file until it expires. */
import { beforeAll, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { sharedServer } from "../../support/shared-server.ts";

const server = sharedServer();
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  await sandbox.files.write("shared.txt", "what is shared");
  await sandbox.files.write("private.txt", "what is not");
});

/** Follows a link as a browser would: at the sandbox's own host name, without any other credentials. */
function follow(link: string, init: RequestInit = {}): Promise<Response> {
  const { pathname, search } = new URL(link);
  const headers = {
    Host: `49983-${sandbox.sandboxId}.sandbox.test`,
    ...(init.headers as Record<string, string> | undefined),
  };
  return fetch(`${server().url}${pathname}${search}`, { ...init, headers });
}

function changed(link: string, change: (query: URLSearchParams) => void): string {
  const url = new URL(link);
  change(url.searchParams);
  return url.href;
}

async function expectRefused(response: Response, message?: string): Promise<void> {
  expect(response.status).toBe(401);
  const body = (await response.json()) as { code: number; message: string };
  expect(body.code).toBe(401);
  if (message !== undefined) expect(body.message).toBe(message);
}

test.each(["shared.txt", "/home/user/shared.txt", "~/shared.txt"])("a link to %s reads it", async (path) => {
  const response = await follow(await sandbox.downloadUrl(path));
  expect(response.status).toBe(200);
  expect(await response.text()).toBe("what is shared");
  expect(response.headers.get("content-disposition")).toContain("shared.txt");
});

test.each(["with space.txt", "ünï € 😀.txt", "100%.txt", "a+b&c=d.txt", "new\nline", 'double"quote'])(
  "a link to %j reads it",
  async (name) => {
    await sandbox.files.write(name, name);
    const response = await follow(await sandbox.downloadUrl(name));
    expect(await response.text()).toBe(name);
  },
);

test("a link to write uploads one file, as a form or as raw bytes", async () => {
  const link = await sandbox.uploadUrl("uploaded/file.txt");
  const form = new FormData();
  form.append("file", new Blob(["from a form"]), "any name");
  const byForm = await follow(link, { method: "POST", body: form });
  expect(byForm.status).toBe(200);
  expect(await byForm.json()).toMatchObject([{ name: "file.txt", path: "/home/user/uploaded/file.txt", type: "file" }]);
  expect(await sandbox.files.read("uploaded/file.txt")).toBe("from a form");
  const headers = { "Content-Type": "application/octet-stream" };
  expect((await follow(link, { method: "POST", body: "plain", headers })).status).toBe(200);
  expect(await sandbox.files.read("uploaded/file.txt")).toBe("plain");
});

test("a changed link is rejected", async () => {
  const link = await sandbox.downloadUrl("shared.txt", { useSignatureExpiration: 600 });
  expect((await follow(link)).status).toBe(200);
  const changes: ((query: URLSearchParams) => void)[] = [
    (query) => query.set("path", "private.txt"),
    (query) => query.set("path", "/home/user/shared.txt"),
    (query) => query.set("username", "root"),
    (query) => query.set("signature_expiration", "4102444800"),
    (query) => query.delete("signature_expiration"),
    (query) => query.delete("signature"),
    (query) => query.set("signature", ""),
    (query) => query.set("signature", "v1_"),
    (query) => query.set("signature", `${query.get("signature")}A`),
    (query) => query.set("signature", `${query.get("signature")?.slice(0, -1)}`),
    (query) => query.set("signature", `v2_${query.get("signature")?.slice(3)}`),
  ];
  for (const change of changes) await expectRefused(await follow(changed(link, change)));
});

test("a link to one sandbox is rejected by others", async () => {
  const other = await Sandbox.create(server().options);
  await other.files.write("shared.txt", "of the other");
  const { pathname, search } = new URL(await sandbox.downloadUrl("shared.txt"));
  const headers = { Host: `49983-${other.sandboxId}.sandbox.test` };
  await expectRefused(await fetch(`${server().url}${pathname}${search}`, { headers }));
  await other.kill();
});

test("a link serves parts of a file", async () => {
  const response = await follow(await sandbox.downloadUrl("shared.txt"), { headers: { Range: "bytes=5-6" } });
  expect(response.status).toBe(206);
  expect(response.headers.get("content-range")).toBe("bytes 5-6/14");
  expect(await response.text()).toBe("is");
});

/** Follows a link unchanged: at the address shared by all sandboxes, which does not name one. */
function followAsItStands(link: string, init: RequestInit = {}): Promise<Response> {
  return fetch(link, init);
}

test("a signed link without a sandbox's name finds its sandbox among several", async () => {
  const other = await Sandbox.create(server().options);
  await other.files.write("shared.txt", "of another");
  const link = await sandbox.downloadUrl("shared.txt");
  expect(new URL(link).origin).toBe(server().url);
  expect(await (await followAsItStands(link)).text()).toBe("what is shared");
  expect(await (await followAsItStands(await other.downloadUrl("shared.txt"))).text()).toBe("of another");
  const upload = await sandbox.uploadUrl("uploaded.txt", { useSignatureExpiration: 60 });
  const headers = { "content-type": "application/octet-stream" };
  const question = { ...headers, origin: "https://page.test", "access-control-request-method": "POST" };
  expect((await followAsItStands(upload, { method: "OPTIONS", headers: question })).status).toBe(204);
  expect((await followAsItStands(upload, { method: "POST", headers, body: "through the link" })).status).toBe(200);
  expect(await sandbox.files.read("uploaded.txt")).toBe("through the link");
  await expectRefused(
    await followAsItStands(changed(link, (query) => query.set("path", "private.txt"))),
    "invalid signature",
  );
  await expectRefused(await followAsItStands(upload));
  await other.kill();
  await expectRefused(await followAsItStands(await other.downloadUrl("shared.txt")), "invalid signature");
});

test("a link to a paused sandbox is 502, and works again after the resume", async () => {
  const other = await Sandbox.create(server().options);
  await other.files.write("shared.txt", "of another");
  const link = await other.downloadUrl("shared.txt");
  await other.pause();
  // More often than a client may guess tokens.
  for (let times = 0; times < 35; times++) expect((await followAsItStands(link)).status).toBe(502);
  await other.connect();
  expect(await (await followAsItStands(link)).text()).toBe("of another");
  await other.kill();
});

test("a client cannot use a link as another user", async () => {
  await sandbox.files.write("/root/shared.txt", "of root", { user: "root" });
  const authorization = `Basic ${btoa("root:")}`;
  const response = await follow(await sandbox.downloadUrl("shared.txt"), { headers: { authorization } });
  expect(await response.text()).toBe("what is shared");
});
