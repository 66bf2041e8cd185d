/** One server for all tests of a file; with its last test it goes, and all its sandboxes with it. */
import { afterAll, beforeAll } from "bun:test";
import { newDataFolder, startServer, type TestServer, takeDownServer } from "../server.ts";

export function serverOfFile(name: string, settings: Record<string, string> = {}): () => TestServer {
  let server: TestServer | undefined;
  beforeAll(async () => {
    server = await startServer(newDataFolder(name), settings);
  });
  afterAll(async () => {
    if (server === undefined) return;
    await server.stop();
    await takeDownServer(server.dataFolder);
  });
  return () => {
    if (server === undefined) throw new Error("the server runs only while tests do");
    return server;
  };
}

/** Data folders for servers that a test starts and stops itself; with the file's last test they are taken down. */
export function foldersOfFile(): (name: string) => string {
  const folders: string[] = [];
  afterAll(async () => {
    for (const folder of folders) await takeDownServer(folder);
  });
  return (name) => {
    const folder = newDataFolder(name);
    folders.push(folder);
    return folder;
  };
}
