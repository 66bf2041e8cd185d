/** Programs inside sandboxes that send in every way they can, so that a test sees what gets out. */
import type { CommandHandle, Sandbox } from "e2b";
import { startListening } from "../listening.ts";
import { until } from "../until.ts";
import { newMark, timesAsked, timesSeen } from "./probing.ts";

/** A program inside that keeps sending in every way, whatever the result (services/sender.py). */
export class Sending {
  /** The counts of a mark that never got out. */
  static readonly NOTHING = { udp: 0, quic: 0, tcp: 0, web: 0, names: 0 };

  private constructor(
    readonly sandbox: Sandbox,
    readonly name: string,
    readonly program?: CommandHandle,
  ) {}

  /** A program that already runs in the sandbox. */
  static goingOn(sandbox: Sandbox, name: string): Sending {
    return new Sending(sandbox, name);
  }

  /** Sends to an address, and to a name at that address, once it has a mark. */
  static async start(sandbox: Sandbox, address: string, name: string): Promise<Sending> {
    await sandbox.files.write("/tmp/mark", "");
    const program = await startListening(sandbox, `exec python3 -u /tmp/sender.py ${address} ${name}`);
    return new Sending(sandbox, name, program);
  }

  /** Another mark from now on. Resolves when it is sent. */
  async newMark(): Promise<string> {
    const mark = newMark();
    await this.sandbox.files.write("/tmp/mark", mark);
    await until("the mark is sent", async () => (await this.#told()).startsWith(mark));
    return mark;
  }

  /** How often its mark was sent so far. */
  async rounds(): Promise<number> {
    return Number((await this.#told()).split(" ")[1]);
  }

  async #told(): Promise<string> {
    return await this.sandbox.files.read("/tmp/rounds").catch(() => "");
  }

  async seen(mark: string): Promise<Record<keyof typeof Sending.NOTHING, number>> {
    const [udp, quic, tcp, web, names] = await Promise.all([
      timesSeen(`${mark}-udp`),
      timesSeen(`${mark}-quic`),
      timesSeen(`${mark}-tcp`),
      timesSeen(`/${mark}`),
      timesAsked(`${mark}.${this.name}`),
    ]);
    return { udp, quic, tcp, web, names };
  }

  async stop(): Promise<void> {
    await this.program?.kill();
  }
}
