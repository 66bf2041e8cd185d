/** The content of a volume, through the official client. */
import { beforeAll, describe, expect, test } from "bun:test";
import { Volume, VolumeNotFoundError, VolumePathNotFoundError } from "e2b";
import { sharedServer } from "../../support/shared-server.ts";
import { VolumesOfServer } from "../../support/volumes.ts";

const server = sharedServer();
const volumes = new VolumesOfServer(server);
let volume: Volume;

beforeAll(async () => {
  volume = await volumes.make("content");
});

const raw = (path: string, init: RequestInit & { token?: string } = {}) =>
  fetch(`${server().url}/volumecontent/${volume.volumeId}${path}`, {
    ...init,
    headers: { Authorization: `Bearer ${init.token ?? volume.token}` },
  });

describe("volumes", () => {
  test("are made, listed, read and destroyed", async () => {
    const { options } = server();
    const own = await volumes.make("own");
    expect(await Volume.list(options)).toContainEqual({ volumeId: own.volumeId, name: own.name });
    expect(await Volume.getInfo(own.volumeId, options)).toMatchObject({ volumeId: own.volumeId, name: own.name });
    const again = await Volume.connect(own.volumeId, options);
    await again.writeFile("/x", "y", volumes.at);
    expect(await own.readFile("/x", volumes.at)).toBe("y");
    await expect(Volume.create(own.name, options)).rejects.toThrow(/400.*already/);
    await expect(Volume.create("not/a/name", options)).rejects.toThrow(/400/);
    expect(await Volume.destroy(own.volumeId, options)).toBe(true);
    expect(await Volume.destroy(own.volumeId, options)).toBe(false);
    await expect(Volume.connect(own.volumeId, options)).rejects.toBeInstanceOf(VolumeNotFoundError);
    await expect(own.readFile("/x", volumes.at)).rejects.toBeInstanceOf(VolumePathNotFoundError);
    const second = await Volume.create(own.name, options);
    expect(await second.list("/", volumes.at)).toEqual([]);
    await Volume.destroy(second.volumeId, options);
  });
});

describe("files", () => {
  test("are written and read in every form of the client", async () => {
    const bytes = crypto.getRandomValues(new Uint8Array(100_000));
    for (const [name, data] of Object.entries({
      text: "grüße",
      bytes: bytes.buffer,
      blob: new Blob([bytes]),
      stream: new Blob([bytes]).stream(),
      empty: "",
    })) {
      const entry = await volume.writeFile(`/forms/${name}`, data, { ...volumes.at, force: true });
      expect(entry).toMatchObject({ name, path: `/forms/${name}`, type: "file", mode: 0o666, uid: 1000, gid: 1000 });
      expect(entry.mtime).toBeInstanceOf(Date);
    }
    expect(await volume.readFile("/forms/text", volumes.at)).toBe("grüße");
    expect(await volume.readFile("/forms/empty", volumes.at)).toBe("");
    expect(await volume.readFile("forms/stream", { ...volumes.at, format: "bytes" })).toEqual(bytes);
    const blob = await volume.readFile("/forms/blob", { ...volumes.at, format: "blob" });
    expect(new Uint8Array(await blob.arrayBuffer())).toEqual(bytes);
    const stream = await volume.readFile("/forms/bytes", { ...volumes.at, format: "stream" });
    expect(new Uint8Array(await new Response(stream).arrayBuffer())).toEqual(bytes);
  });

  test("of a hundred MiB are streamed both ways", async () => {
    const piece = new Uint8Array(1024 * 1024).fill(7);
    let sent = 0;
    const source = new ReadableStream({
      pull(controller) {
        if (sent++ < 100) controller.enqueue(piece);
        else controller.close();
      },
    });
    expect(await volume.writeFile("/large", source, volumes.at)).toMatchObject({ size: 100 * piece.length });
    let read = 0;
    for await (const each of await volume.readFile("/large", { ...volumes.at, format: "stream" })) read += each.length;
    expect(read).toBe(100 * piece.length);
    await volume.remove("/large", volumes.at);
  });
});

describe("folders", () => {
  test("are made, listed to a depth and removed with their content", async () => {
    await expect(volume.makeDir("/a/b", volumes.at)).rejects.toBeInstanceOf(VolumePathNotFoundError);
    expect(await volume.makeDir("/a/b", { ...volumes.at, force: true, mode: 0o700 })).toMatchObject({ mode: 0o700 });
    await volume.writeFile("/a/b/c", "c", volumes.at);
    expect((await volume.list("/a", volumes.at)).map(({ path }) => path)).toEqual(["/a/b"]);
    expect((await volume.list("/a", { ...volumes.at, depth: 2 })).map(({ path }) => path)).toEqual(["/a/b", "/a/b/c"]);
    await volume.remove("/a", volumes.at);
    expect(await volume.exists("/a", volumes.at)).toBe(false);
    await expect(volume.remove("/a", volumes.at)).rejects.toBeInstanceOf(VolumePathNotFoundError);
    await expect(volume.list("/a", volumes.at)).rejects.toBeInstanceOf(VolumePathNotFoundError);
  });
});

describe("tokens", () => {
  test("grant access to their own volume only", async () => {
    const other = await volumes.make("other");
    const statuses = async (token: string) => [
      (await raw("/path?path=/", { token })).status,
      (await raw("/file?path=/x", { method: "PUT", body: "x", token })).status,
    ];
    expect(await statuses(volume.token)).toEqual([200, 201]);
    expect(await statuses(other.token)).toEqual([403, 403]);
    expect(await statuses(server().apiKey)).toEqual([401, 401]);
    const [head, body, signature] = volume.token.split(".") as [string, string, string];
    const forged = Buffer.from(JSON.stringify({ ...JSON.parse(atob(body)), exp: 9e9 })).toString("base64url");
    const none = Buffer.from('{"alg":"none","typ":"JWT"}').toString("base64url");
    for (const token of [`${head}.${forged}.${signature}`, `${none}.${body}.`, `${head}.${body}`, "x", ".."]) {
      expect(await statuses(token)).toEqual([401, 401]);
    }
    expect((await fetch(`${server().url}/volumecontent/${volume.volumeId}/path?path=/`)).status).toBe(401);
  });
});

test("an abandoned download does not delay the next ones", async () => {
  await volume.writeFile("/abandoned", new Uint8Array(20 * 1024 * 1024).buffer, volumes.at);
  for (let round = 0; round < 40; round++) {
    const stream = await volume.readFile("/abandoned", { ...volumes.at, format: "stream" });
    await stream.cancel();
    await raw("/file?path=/abandoned", { method: "HEAD" });
  }
  expect(await volume.exists("/abandoned", volumes.at)).toBe(true);
});
