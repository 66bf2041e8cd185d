/** The SDK's git helper: it runs the sandbox's own git, parses its output, and tells failures apart by its messages. */
import { beforeAll, describe, expect, test } from "bun:test";
import { GitAuthError, GitUpstreamError, Sandbox } from "e2b";
import { sharedServer } from "../../support/shared-server.ts";
import { refusalOf } from "../../support/until.ts";

const server = sharedServer();
const BARE = "/home/user/shared.git";
const OURS = "/home/user/ours";
const THEIRS = "/home/user/their copy";
/** A web server that demands a password and accepts none. */
const DEMANDS_PASSWORD = `
from http.server import BaseHTTPRequestHandler, HTTPServer
class Keeper(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(401)
        self.send_header("WWW-Authenticate", "Basic")
        self.send_header("Content-Length", "0")
        self.end_headers()
server = HTTPServer(("127.0.0.1", 8401), Keeper)
print("ready")
server.serve_forever()
`;
let sandbox: Sandbox;

beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  await sandbox.git.configureUser("Ada", "ada@example.com");
  await sandbox.git.init(BARE, { bare: true, initialBranch: "main" });
  await sandbox.git.clone(BARE, { path: OURS });
  await commitFile(OURS, "README.md", "first\n", "Begin");
  await sandbox.git.push(OURS, { remote: "origin", branch: "main" });
});

async function commitFile(repository: string, name: string, content: string, message: string): Promise<void> {
  await sandbox.files.write(`${repository}/${name}`, content);
  await sandbox.git.add(repository);
  await sandbox.git.commit(repository, message);
}

async function log(repository: string, reference = "HEAD"): Promise<string[]> {
  const { stdout } = await sandbox.commands.run(`git log --format='%s by %an' ${reference}`, { cwd: repository });
  return stdout.trim().split("\n");
}

async function freshClone(name: string): Promise<string> {
  const path = `/home/user/${name}`;
  await sandbox.git.clone(BARE, { path });
  return path;
}

test("status distinguishes new, changed, removed and staged files", async () => {
  const path = await freshClone("status");
  await commitFile(path, "removed.txt", "here for now\n", "Add one to remove");
  await sandbox.files.write(`${path}/README.md`, "changed\n");
  await sandbox.files.write(`${path}/new file.txt`, "new\n");
  await sandbox.files.write(`${path}/staged.txt`, "staged\n");
  await sandbox.files.remove(`${path}/removed.txt`);
  await sandbox.git.add(path, { files: ["staged.txt"] });
  const status = await sandbox.git.status(path);
  const labels = Object.fromEntries(
    status.fileStatus.map(({ name, status: label, staged }) => [name, [label, staged]]),
  );
  expect(labels).toEqual({
    "README.md": ["modified", false],
    "removed.txt": ["deleted", false],
    "staged.txt": ["added", true],
    '"new file.txt"': ["untracked", false],
  });
  expect(status).toMatchObject({ ahead: 1, behind: 0, isClean: false, stagedCount: 1, untrackedCount: 1 });
});

test("branches are made, changed to, pushed, cloned and deleted", async () => {
  const path = await freshClone("branches");
  await sandbox.git.createBranch(path, "feature/one");
  expect(await sandbox.git.branches(path)).toEqual({ branches: ["feature/one", "main"], currentBranch: "feature/one" });
  await commitFile(path, "feature.txt", "new\n", "Add a feature");
  await sandbox.git.push(path, { remote: "origin", branch: "feature/one" });
  expect((await sandbox.git.status(path)).upstream).toBe("origin/feature/one");

  await sandbox.git.checkoutBranch(path, "main");
  expect((await sandbox.git.branches(path)).currentBranch).toBe("main");
  expect(await sandbox.files.exists(`${path}/feature.txt`)).toBe(false);
  await sandbox.git.deleteBranch(path, "feature/one", { force: true });
  expect((await sandbox.git.branches(path)).branches).toEqual(["main"]);

  await sandbox.git.clone(`file://${BARE}`, { path: THEIRS, branch: "feature/one", depth: 1 });
  expect(await log(THEIRS)).toEqual(["Add a feature by Ada"]);
});

test("a clone pulls the commits that another clone pushed", async () => {
  const [giver, taker] = [await freshClone("giver"), await freshClone("taker")];
  await commitFile(giver, "given.txt", "given\n", "Give");
  await sandbox.git.push(giver);
  await sandbox.git.pull(taker);
  expect(await sandbox.files.read(`${taker}/given.txt`)).toBe("given\n");
  expect((await log(taker))[0]).toBe("Give by Ada");
});

describe("a failure", () => {
  test("without an upstream branch is a GitUpstreamError", async () => {
    const path = await freshClone("no-upstream");
    await sandbox.git.createBranch(path, "alone");
    expect(await refusalOf(sandbox.git.push(path))).toBeInstanceOf(GitUpstreamError);
    expect(await refusalOf(sandbox.git.pull(path))).toBeInstanceOf(GitUpstreamError);
  });

  test("without credentials is a GitAuthError", async () => {
    const ready = Promise.withResolvers<void>();
    const keeper = await sandbox.commands.run(`python3 -u -c '${DEMANDS_PASSWORD}'`, {
      background: true,
      onStdout: () => ready.resolve(),
    });
    await ready.promise;
    const url = "http://127.0.0.1:8401/private.git";
    expect(await refusalOf(sandbox.git.clone(url, { path: "/home/user/never" }))).toBeInstanceOf(GitAuthError);
    const login = { username: "ada", password: "wrong" };
    expect(await refusalOf(sandbox.git.clone(url, { path: "/home/user/never", ...login }))).toBeInstanceOf(
      GitAuthError,
    );
    expect(await sandbox.files.exists("/home/user/never")).toBe(false);
    await keeper.kill();
  });
});
