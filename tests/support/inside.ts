/** Inspects and changes a sandbox from the machine, without the guest. */
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import type { Machine } from "../../src/host/machine.ts";
import { GuestClient } from "../../src/sandbox/guest-link/guest-client.ts";
import type { SandboxRecord } from "../../src/sandbox/sandbox-record.ts";
import { run } from "../../src/system/command.ts";
import type { DataFolder } from "../../src/system/data-folder.ts";
import { until } from "./until.ts";

const UP_WITHIN_MS = 120_000;

export function recordOf(data: DataFolder, id: string): SandboxRecord {
  return JSON.parse(readFileSync(join(data.sandboxesFolder, id, "record.json"), "utf8"));
}

/** Output of a shell line that runs for a moment. */
export async function shell(data: DataFolder, id: string, line: string): Promise<string> {
  const { pid } = recordOf(data, id);
  return (await run(["nsenter", "-t", String(pid), "-a", "--", "/bin/sh", "-c", line])).trim();
}

/**
 * Starts a Python program as the guest starts processes; it runs on by itself. Works while the sandbox needs no token.
 */
export async function startPython(machine: Machine, id: string, program: string, ...args: string[]): Promise<void> {
  const guest = new GuestClient(machine.addressOf(id) ?? "", "");
  const events = await guest.start(["/usr/bin/python3", "-c", program, ...args], "root");
  const reader = events.body?.getReader();
  await reader?.read();
  await reader?.cancel();
}

/** The answer of a service inside to a line; retries connections until the service is up. */
export async function ask(machine: Machine, id: string, port: number, line = ""): Promise<string> {
  const address = machine.addressOf(id) ?? "";
  let answer = "";
  let failure: unknown;
  const isUp = async () => {
    try {
      answer = await exchange(address, port, line);
      return true;
    } catch (error) {
      failure = error;
      return false;
    }
  };
  await until(() => `an answer of ${address}:${port}; last: ${String(failure)}`, isUp, UP_WITHIN_MS);
  return answer;
}

function exchange(address: string, port: number, line: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    const socket = connect(port, address, () => socket.write(`${line}\n`));
    socket.setTimeout(UP_WITHIN_MS, () => socket.destroy(new Error("no answer")));
    socket.on("data", (chunk) => {
      text += chunk.toString();
    });
    socket.on("error", reject);
    socket.on("close", () => resolve(text));
  });
}

/** A connection that stays open. */
export class Line {
  #answer: (text: string) => void = () => undefined;

  private constructor(readonly socket: Socket) {
    socket.on("data", (chunk) => this.#answer(chunk.toString()));
    socket.on("error", () => undefined);
  }

  static open(address: string, port: number): Promise<Line> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, address, () => resolve(new Line(socket)));
      socket.on("error", reject);
    });
  }

  /** The reply to `text`. */
  echo(text: string): Promise<string> {
    return new Promise((resolve) => {
      this.#answer = resolve;
      this.socket.write(text);
    });
  }

  close(): void {
    this.socket.destroy();
  }
}
