/**
 * A running command or terminal that the test talks to repeatedly, also across a pause, like a client that reconnects.
 */
import { CommandExitError, type CommandHandle, type Sandbox } from "e2b";

const HEAR_MS = 180_000;

export class Conversation {
  #heard = "";
  #listener: () => void = () => undefined;
  #handle: CommandHandle | undefined;
  /** True once no more output comes. */
  #isOver = false;

  private constructor(
    readonly kind: "command" | "terminal",
    public sandbox: Sandbox,
  ) {}

  /** A command with its input open. */
  static async withCommand(sandbox: Sandbox, command: string): Promise<Conversation> {
    const made = new Conversation("command", sandbox);
    const received = { onStdout: made.#take, onStderr: made.#take };
    made.#follow(await sandbox.commands.run(command, { background: true, stdin: true, timeoutMs: 0, ...received }));
    return made;
  }

  /** A login shell on a terminal. */
  static async withTerminal(sandbox: Sandbox): Promise<Conversation> {
    const made = new Conversation("terminal", sandbox);
    made.#follow(await sandbox.pty.create({ cols: 200, rows: 50, timeoutMs: 0, onData: made.#takeBytes }));
    return made;
  }

  /** A command that runs already. */
  static async withProcess(sandbox: Sandbox, pid: number): Promise<Conversation> {
    const made = new Conversation("command", sandbox);
    const received = { onStdout: made.#take, onStderr: made.#take };
    made.#follow(await sandbox.commands.connect(pid, { timeoutMs: 0, ...received }));
    return made;
  }

  get pid(): number {
    return this.#handle?.pid ?? 0;
  }

  /** Connects to the same process again. Output from the time in between is lost. */
  async reconnect(sandbox: Sandbox): Promise<void> {
    this.sandbox = sandbox;
    this.#follow(
      this.kind === "terminal"
        ? await sandbox.pty.connect(this.pid, { timeoutMs: 0, onData: this.#takeBytes })
        : await sandbox.commands.connect(this.pid, { timeoutMs: 0, onStdout: this.#take, onStderr: this.#take }),
    );
  }

  /** A pause breaks the connection; that alone is no failure. */
  #follow(handle: CommandHandle): void {
    this.#handle = handle;
    const end = () => {
      this.#isOver = true;
      this.#listener();
    };
    handle.wait().then(end, (error: unknown) => {
      if (error instanceof CommandExitError) end();
    });
  }

  async say(line: string): Promise<void> {
    if (this.kind === "terminal") await this.sandbox.pty.sendInput(this.pid, new TextEncoder().encode(`${line}\n`));
    else await this.sandbox.commands.sendStdin(this.pid, `${line}\n`);
  }

  /** Waits for a match in the output that was not consumed yet, and consumes it. */
  async hear(pattern: RegExp): Promise<string> {
    const deadline = Date.now() + HEAR_MS;
    for (;;) {
      const match = pattern.exec(this.#heard);
      if (match !== null) {
        this.#heard = this.#heard.slice(match.index + match[0].length);
        return match[1] ?? match[0];
      }
      if (this.#isOver) throw new Error(`${pattern} was not heard before the end, but ${this.#heard}`);
      const more = new Promise<void>((resolve) => {
        this.#listener = resolve;
      });
      await Promise.race([more, Bun.sleep(Math.max(0, deadline - Date.now()))]);
      if (Date.now() >= deadline) throw new Error(`${pattern} was not heard within ${HEAR_MS} ms, but ${this.#heard}`);
    }
  }

  /** Sends a line and waits for the output that it leads to. */
  async ask(line: string, pattern: RegExp): Promise<string> {
    await this.say(line);
    return await this.hear(pattern);
  }

  /** Waits until the command ends by itself. */
  async ended(): Promise<number> {
    return (await this.#handle?.wait())?.exitCode ?? -1;
  }

  readonly #decoder = new TextDecoder();
  readonly #takeBytes = (bytes: Uint8Array) => this.#take(this.#decoder.decode(bytes, { stream: true }));
  readonly #take = (text: string) => {
    this.#heard += text;
    this.#listener();
  };
}
