/** One end of a connection as a stream of Node, for its HTTP/2 module. */
import { Duplex } from "node:stream";
import type { Peer } from "./peer.ts";

type Written = (failure?: Error | null) => void;

export class PeerStream extends Duplex {
  #written: Written | undefined;

  /** `watch` sees all bytes before the reader of the stream does. */
  constructor(
    private readonly peer: Peer,
    watch: (bytes: Buffer<ArrayBuffer>) => void,
  ) {
    super({ allowHalfOpen: false });
    // The owner sees the close event that follows.
    this.on("error", () => undefined);
    peer.events = {
      data: (bytes) => {
        watch(bytes);
        if (!this.push(bytes)) peer.pause();
      },
      end: () => {
        this.push(null);
        if (peer.isClosed) this.destroy();
      },
      room: () => this.#room(),
    };
  }

  override _read(): void {
    this.peer.resume();
  }

  override _write(bytes: Buffer, _: string, written: Written): void {
    if (this.peer.isClosed) return void written(new Error("the connection is closed"));
    if (this.peer.write(bytes)) written();
    else this.#written = written;
  }

  override _final(done: Written): void {
    this.peer.finish();
    done();
  }

  override _destroy(failure: Error | null, done: Written): void {
    this.peer.cut();
    this.#room();
    done(failure);
  }

  #room(): void {
    const written = this.#written;
    this.#written = undefined;
    written?.();
  }
}
