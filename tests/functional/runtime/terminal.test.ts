/** A terminal in a sandbox: a real one, with a size, colours and job control, that several clients can watch. */
import { beforeAll, expect, test } from "bun:test";
import { type CommandHandle, NotFoundError, Sandbox } from "e2b";
import { sharedServer } from "../../support/shared-server.ts";
import { refusalOf, until } from "../../support/until.ts";

const server = sharedServer();
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
});

/** The terminal's screen as a person sees it. */
class Screen {
  readonly #decoder = new TextDecoder();
  #text = "";

  readonly show = (bytes: Uint8Array) => {
    this.#text += this.#decoder.decode(bytes, { stream: true });
  };

  get text(): string {
    return this.#text;
  }

  /** Waits for `expected`, and wipes the screen up to its end. */
  async read(expected: RegExp): Promise<RegExpExecArray> {
    let found: RegExpExecArray | null = null;
    const problem = () => `the terminal shows ${expected}; it shows ${JSON.stringify(this.#text.slice(-2000))}`;
    await until(problem, () => {
      found = expected.exec(this.#text);
      return found !== null;
    });
    const match = found as unknown as RegExpExecArray;
    this.#text = this.#text.slice(match.index + match[0].length);
    return match;
  }
}

async function open(options: { cwd?: string; user?: string; envs?: Record<string, string> } = {}) {
  const screen = new Screen();
  const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: screen.show, ...options });
  // Only a shell computes the sum, so that the echo of the input is not taken for the output.
  await type(terminal, "PS1='> '; bind 'set enable-bracketed-paste off'; echo ready-$((40 + 2))\n");
  // Once it prompts, the shell reads single keys. Before that, the kernel keeps an end of input for a line reader.
  await screen.read(/ready-42\r\n> /);
  return { terminal, screen };
}

async function type(terminal: CommandHandle, text: string): Promise<void> {
  await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode(text));
}

test("a terminal echoes typed commands and runs them", async () => {
  const { terminal, screen } = await open();
  await type(terminal, "echo $((6 * 7)) and $(whoami)\n");
  await screen.read(/echo \$\(\(6 \* 7\)\) and \$\(whoami\)\r\n/);
  await screen.read(/42 and user\r\n/);
  await terminal.kill();
});

test("programs see a terminal with colours and UTF-8, and the user's own variables", async () => {
  const { terminal, screen } = await open({ envs: { FAVOURITE: "green" } });
  await type(terminal, 'test -t 0 && test -t 1 && test -t 2 && echo "it is $(tty)"\n');
  await screen.read(/\r\nit is \/dev\/pts\/\d+\r\n/);
  await type(terminal, 'echo "[$TERM|$LANG|$(tput colors)|$FAVOURITE]"\n');
  await screen.read(/\[xterm-256color\|C\.UTF-8\|256\|green\]/);
  await type(terminal, 'echo "$(tput setaf 1)red$(tput sgr0) ü€😀"\n');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are control characters.
  await screen.read(/\r\n\u001b\[31mred\S+ ü€😀\r\n/);
  await terminal.kill();
});

test("a terminal has the requested size, and programs get SIGWINCH when a client resizes it", async () => {
  const { terminal, screen } = await open();
  await type(terminal, "stty size\n");
  await screen.read(/\r\n24 80\r\n/);
  await type(terminal, "trap 'echo told-$((1 + 1))' WINCH; echo listening-$((1 + 1))\n");
  await screen.read(/listening-2\r\n/);
  await sandbox.pty.resize(terminal.pid, { cols: 132, rows: 50 });
  await type(terminal, "stty size\n");
  await screen.read(/told-2\r\n/);
  await type(terminal, "stty size; echo $COLUMNS-$LINES\n");
  await screen.read(/\r\n50 132\r\n132-50\r\n/);
  await terminal.kill();
});

test("control-C interrupts the program, not the shell", async () => {
  const { terminal, screen } = await open();
  // The program itself reports its start, so that it receives the interrupt.
  await type(terminal, "sh -c 'echo asleep-$((1 + 1)); exec sleep 300'\n");
  await screen.read(/asleep-2\r\n/);
  await type(terminal, "\u0003");
  await type(terminal, "echo code-$?\n");
  await screen.read(/code-130\r\n/);
  await terminal.kill();
});

test("a terminal opens as another user and in another folder", async () => {
  const { terminal, screen } = await open({ user: "root", cwd: "/tmp" });
  await type(terminal, 'echo "$(whoami) in $PWD"\n');
  await screen.read(/\r\nroot in \/tmp\r\n/);
  await terminal.kill();
});

test("a terminal ends with the exit code of its shell", async () => {
  const { terminal } = await open();
  await type(terminal, "exit 3\n");
  expect(await refusalOf(terminal.wait())).toMatchObject({ exitCode: 3 });
});

test("a terminal ends at the end of its input", async () => {
  const { terminal } = await open();
  await type(terminal, "\u0004");
  expect((await terminal.wait()).exitCode).toBe(0);
});

test("a killed terminal returns -1 and names the signal", async () => {
  const { terminal } = await open();
  expect(await sandbox.pty.kill(terminal.pid)).toBe(true);
  expect(await refusalOf(terminal.wait())).toMatchObject({ exitCode: -1, error: "signal: killed" });
  expect(await sandbox.pty.kill(terminal.pid)).toBe(false);
  expect(await refusalOf(sandbox.pty.resize(terminal.pid, { cols: 1, rows: 1 }))).toBeInstanceOf(NotFoundError);
});

test("a second client watches the same terminal and types into it", async () => {
  const { terminal, screen } = await open();
  const theirScreen = new Screen();
  const theirs = await Sandbox.connect(sandbox.sandboxId, server().options);
  const theirTerminal = await theirs.pty.connect(terminal.pid, { onData: theirScreen.show });
  expect(theirTerminal.pid).toBe(terminal.pid);
  await theirs.pty.sendInput(terminal.pid, new TextEncoder().encode("echo both-$((1 + 1))\n"));
  await Promise.all([screen.read(/both-2\r\n/), theirScreen.read(/both-2\r\n/)]);
  await theirTerminal.disconnect();
  await type(terminal, "echo alone-$((1 + 1))\n");
  await screen.read(/alone-2\r\n/);
  expect(theirScreen.text).not.toContain("alone-2");
  await terminal.kill();
});

test("a terminal is in the list of commands, and outlives its client", async () => {
  const { terminal, screen } = await open();
  await terminal.disconnect();
  const listed = (await sandbox.commands.list()).find(({ pid }) => pid === terminal.pid);
  expect(listed).toMatchObject({ cmd: "/bin/bash", args: ["-i", "-l"] });
  await sandbox.pty.connect(terminal.pid, { onData: screen.show });
  await type(terminal, "echo back-$((1 + 1))\n");
  await screen.read(/back-2\r\n/);
  expect(await sandbox.pty.kill(terminal.pid)).toBe(true);
});
