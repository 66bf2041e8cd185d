/**
 * Uses a sandbox with the official SDK as a client that knows a domain, a key and a certificate authority: commands,
 * terminals, files, signed links, host names of ports, WebSockets.
 */
import { expect } from "bun:test";
import { runWithSdk, type Where } from "./sdk-program.ts";

/** `word` is the id of a sandbox with web-service on port 8000 and websocket-echo on 8100; `domain` may have a port. */
export async function useWithDomain(where: Where, domain: string): Promise<void> {
  const seen = await runWithSdk(async ({ Sandbox, word, until }) => {
    const sandbox = await Sandbox.create({ timeoutMs: 300_000 });
    const { stdout } = await sandbox.commands.run("echo hello; sleep 0.1; echo again");
    // Ends only if its first line arrives before its end.
    let spoken = "";
    const talk = await sandbox.commands.run("echo ready; read line; echo got $line", {
      background: true,
      stdin: true,
      onStdout: (text) => {
        spoken += text;
      },
    });
    await until(() => spoken === "ready\n");
    await sandbox.commands.sendStdin(talk.pid, "input\n");
    const { stdout: talked } = await talk.wait();
    let screen = "";
    const terminal = await sandbox.pty.create({
      cols: 80,
      rows: 24,
      onData: (data) => {
        screen += new TextDecoder().decode(data);
      },
    });
    await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode("echo $((6 * 7)) lines\n"));
    await until(() => screen.includes("42 lines"));
    await terminal.kill();

    const bytes = new Uint8Array(8 << 20).map((_, at) => at * 7);
    await sandbox.files.write("big", new Blob([bytes]));
    const back = await sandbox.files.read("big", { format: "bytes" });
    const isSame = Buffer.compare(back, bytes) === 0;

    const serving = await Sandbox.connect(word);
    const address = serving.getHost(8000);
    const page = await fetch(`https://${address}/echo?x=1`, { method: "POST", body: "to a port" });
    const { method, url, headers, length } = (await page.json()) as {
      method: string;
      url: string;
      headers: { host: string };
      length: number;
    };

    await sandbox.files.write("letter", "signed");
    const download = await sandbox.downloadUrl("letter", { useSignatureExpiration: 60_000 });
    const downloaded = await (await fetch(download)).text();
    const form = new FormData();
    form.append("file", new Blob(["from outside"]), "parcel");
    const upload = await sandbox.uploadUrl("parcel", { useSignatureExpiration: 60_000 });
    const { status: uploaded } = await fetch(upload, { method: "POST", body: form });
    const parcel = await sandbox.files.read("parcel");

    // Node has its own WebSocket from version 22 on.
    const { WebSocket } = "WebSocket" in globalThis ? globalThis : ((await import("undici" as string)) as never);
    const socket = new WebSocket(`wss://${serving.getHost(8100)}/path`);
    const received: string[] = [];
    socket.onmessage = ({ data }: { data: unknown }) => void received.push(String(data));
    await until(() => received.length === 1);
    socket.send("over TLS");
    await until(() => received.length === 2);
    socket.close();

    const { state } = await sandbox.getInfo();
    const isRunning = await sandbox.isRunning();
    const killed = await sandbox.kill();
    const hosts = [address, headers.host].map((host) => host.replace(serving.sandboxId, "ID"));
    const links = [download, upload].map((link) => new URL(link).origin.replace(sandbox.sandboxId, "ID"));
    return {
      stdout,
      talked,
      isSame,
      page: { method, url, length },
      files: { downloaded, uploaded, parcel },
      received,
      hosts,
      links,
      state,
      isRunning,
      killed,
    };
  }, where);
  expect(seen).toEqual({
    stdout: "hello\nagain\n",
    talked: "ready\ngot input\n",
    isSame: true,
    page: { method: "POST", url: "/echo?x=1", length: 9 },
    files: { downloaded: "signed", uploaded: 200, parcel: "from outside" },
    received: ["connected to /path", "over TLS"],
    hosts: [`8000-ID.${domain}`, `8000-ID.${domain}`],
    links: [`https://49983-ID.${domain}`, `https://49983-ID.${domain}`],
    state: "running",
    isRunning: true,
    killed: true,
  });
}
