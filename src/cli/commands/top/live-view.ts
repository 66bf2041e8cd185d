/** The live view of `sandlot top`: draws the table again and again, and acts on keys. */
import { printable } from "../../../base/printable.ts";
import { SerialQueue } from "../../../base/serial-queue.ts";
import { Fault } from "../../../contract/fault.ts";
import type { ServerStatus } from "../../server/admin/server-status.ts";
import { type AdminCall, sampleOf, statusOf } from "./top-readings.ts";
import {
  filtered,
  headLine,
  lineOf,
  rowsOf,
  type Sample,
  SORT_KEYS,
  type SortKey,
  sorted,
  summary,
} from "./top-table.ts";

const REFRESH_MS = 2_000;

const [ALTERNATE_SCREEN, ORDINARY_SCREEN] = ["\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"];
const [HOME, CLEAR_LINE, CLEAR_BELOW] = ["\x1b[H", "\x1b[K", "\x1b[J"];
const [INVERSE, PLAIN] = ["\x1b[7m", "\x1b[0m"];
const [UP, DOWN, ESCAPE, ENTER, BACKSPACE, INTERRUPT] = ["\x1b[A", "\x1b[B", "\x1b", "\r", "\x7f", "\x03"];

/** An escape sequence, such as of an arrow; a character typed with Alt; or one character. */
const KEY = new RegExp(`${ESCAPE}\\[[0-?]*[ -/]*[@-~]|${ESCAPE}O.|${ESCAPE}[^${ESCAPE}]|.`, "gsu");

export class LiveView {
  readonly #over = Promise.withResolvers<void>();
  readonly #reads = new SerialQueue();
  #status: ServerStatus | undefined;
  #earlier: Sample | undefined;
  #now: Sample | undefined;
  /** Id of the marked sandbox. */
  #marked: string | undefined;
  /** While the operator types a filter. */
  #isTyping = false;
  /** The sandbox that a further key kills. */
  #toKill: string | undefined;
  #message = "";
  /** Why the shown table is not up to date. */
  #failure = "";

  constructor(
    private readonly call: AdminCall,
    private sort: SortKey,
    private filter: string,
    private readonly write: (text: string) => void,
  ) {}

  async run(): Promise<number> {
    const { stdin, stdout } = process;
    // Before the screen changes: without a server there is only an error.
    await this.#read();
    stdout.write(ALTERNATE_SCREEN);
    stdin.setRawMode(true);
    stdin.setEncoding("utf8");
    const onKeys = (text: string) => this.onKeys(text);
    stdin.on("data", onKeys);
    const draw = () => this.#draw();
    stdout.on("resize", draw);
    const timer = setInterval(() => void this.tick(), REFRESH_MS);
    try {
      this.#draw();
      await this.#over.promise;
    } finally {
      clearInterval(timer);
      stdin.off("data", onKeys);
      stdout.off("resize", draw);
      stdin.setRawMode(false);
      stdin.pause();
      stdout.write(ORDINARY_SCREEN);
    }
    return 0;
  }

  /** Refreshes unless an earlier refresh still waits for the server. */
  async tick(): Promise<void> {
    if (this.#reads.isIdle) await this.#refresh();
  }

  async #read(): Promise<void> {
    this.#status = await statusOf(this.call);
    this.#earlier = this.#now;
    this.#now = await sampleOf(this.call);
  }

  async #refresh(): Promise<void> {
    this.#failure = await this.#reads
      .run(() => this.#read())
      .then(
        () => "",
        (error: unknown) => Fault.from(error).message,
      );
    this.#draw();
  }

  get #rows() {
    return this.#now === undefined ? [] : sorted(filtered(rowsOf(this.#earlier, this.#now), this.filter), this.sort);
  }

  #draw(): void {
    const { columns = 80, rows: height = 24 } = process.stdout;
    const rows = this.#rows;
    if (!rows.some(({ id }) => id === this.#marked)) this.#marked = rows[0]?.id;
    const head = [...(this.#status === undefined ? [] : summary(this.#status)), this.#hint(), headLine()];
    const room = Math.max(1, height - head.length - 1);
    const at = rows.findIndex(({ id }) => id === this.#marked);
    const first = Math.max(0, Math.min(at - Math.floor(room / 2), rows.length - room));
    const body = rows.slice(first, first + room).map((row) => {
      const text = lineOf(row).slice(0, columns);
      return row.id === this.#marked ? `${INVERSE}${text.padEnd(columns)}${PLAIN}` : text;
    });
    const lines = [...head.map((line) => line.slice(0, columns)), ...body];
    this.write(`${HOME}${lines.map((line) => `${line}${CLEAR_LINE}`).join("\r\n")}${CLEAR_BELOW}`);
  }

  #hint(): string {
    if (this.#isTyping) return `filter: ${printable(this.filter)}_`;
    if (this.#toKill !== undefined) return `kill ${this.#toKill}? y: yes, any other key: no`;
    if (this.#failure !== "") return printable(this.#failure);
    if (this.#message !== "") return printable(this.#message);
    const shown = this.filter === "" ? "" : `  filter: ${printable(this.filter)}`;
    return `sorted by ${this.sort}${shown}  [s]ort [/]filter [p]ause [x]kill [q]uit`;
  }

  onKeys(text: string): void {
    const keys = keysOf(text);
    for (const key of keys) this.#onKey(key, { isAlone: keys.length === 1 });
    this.#draw();
  }

  #onKey(key: string, { isAlone }: { isAlone: boolean }): void {
    if (key === INTERRUPT) this.#over.resolve();
    else if (this.#isTyping) this.#type(key);
    // Pasted text confirms nothing.
    else if (this.#toKill !== undefined) this.#confirm(isAlone ? key : "");
    else this.#command(key);
  }

  #command(key: string): void {
    this.#message = "";
    const marked = this.#marked;
    if (key === "q") this.#over.resolve();
    else if (key === "s") this.sort = SORT_KEYS[(SORT_KEYS.indexOf(this.sort) + 1) % SORT_KEYS.length] ?? "cpu";
    else if (key === UP || key === "k") this.#move(-1);
    else if (key === DOWN || key === "j") this.#move(1);
    else if (key === "x") this.#toKill = marked;
    else if (key === "p" && marked !== undefined)
      void this.#act(`POST /sandboxes/${marked}/pause`, `${marked} is paused`);
    else if (key === "/") {
      this.filter = "";
      this.#isTyping = true;
    }
  }

  #type(key: string): void {
    if (key === ENTER || key === ESCAPE) this.#isTyping = false;
    else if (key === BACKSPACE) this.filter = this.filter.slice(0, -1);
    else if (!key.startsWith(ESCAPE)) this.filter += printable(key);
  }

  #confirm(key: string): void {
    const id = this.#toKill;
    this.#toKill = undefined;
    if (key === "y" && id !== undefined) void this.#act(`DELETE /sandboxes/${id}`, `${id} is killed`);
  }

  #move(by: number): void {
    const rows = this.#rows;
    const at = rows.findIndex(({ id }) => id === this.#marked);
    this.#marked = rows[Math.max(0, Math.min(rows.length - 1, at + by))]?.id;
  }

  async #act(request: string, done: string): Promise<void> {
    this.#message = `${request} …`;
    try {
      await this.call(request);
      this.#message = done;
    } catch (error) {
      this.#message = Fault.from(error).message;
    }
    await this.#refresh();
  }
}

/** A terminal may pass on several keys at once. */
export function keysOf(text: string): string[] {
  return text.match(KEY) ?? [];
}
