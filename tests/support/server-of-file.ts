/** One server for all tests of a file; removed with all its sandboxes after the last test. */
import { afterAll, beforeAll } from "bun:test";
import { newDataFolder, removeServer, startServer, type TestServer } from "./server.ts";

export function serverOfFile(name: string, settings: Record<string, string> = {}): () => TestServer {
  let server: TestServer | undefined;
  beforeAll(async () => {
    server = await startServer(newDataFolder(name), settings);
  });
  afterAll(async () => {
    if (server === undefined) return;
    await server.stop();
    await removeServer(server.dataFolder);
  });
  return () => {
    if (server === undefined) throw new Error("the server runs only while tests do");
    return server;
  };
}

/**
 * Data folders for servers that a test starts and stops itself, removed after the file's last test. The same name
 * gets another folder the next time, as in a retried test: a server may still run in the first.
 */
export function foldersOfFile(): (name: string) => string {
  const folders: string[] = [];
  afterAll(async () => {
    for (const folder of folders) await removeServer(folder);
  });
  return (name) => {
    const isTaken = folders.includes(newDataFolder(name));
    const folder = newDataFolder(isTaken ? `${name}-${folders.length}` : name);
    folders.push(folder);
    return folder;
  };
}
