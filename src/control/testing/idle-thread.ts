/** A thread that only watches the clock: its delay shows how busy the machine is with other work. */
const EVERY_MS = 5;

const LOOK = `
let [last, worst] = [performance.now(), 0];
setInterval(() => {
  const now = performance.now();
  worst = Math.max(worst, now - last - ${EVERY_MS});
  last = now;
}, ${EVERY_MS});
self.onmessage = () => self.postMessage(worst);
self.postMessage(0);`;

export class IdleThread implements Disposable {
  readonly #worker: Worker;

  private constructor(worker: Worker) {
    this.#worker = worker;
  }

  static async start(): Promise<IdleThread> {
    const thread = new IdleThread(new Worker(URL.createObjectURL(new Blob([LOOK]))));
    await thread.#answer();
    return thread;
  }

  /** The longest delay so far, in milliseconds. */
  async worstMs(): Promise<number> {
    this.#worker.postMessage("");
    return await this.#answer();
  }

  #answer(): Promise<number> {
    return new Promise((resolve) => {
      this.#worker.onmessage = ({ data }: MessageEvent<number>) => resolve(data);
    });
  }

  [Symbol.dispose](): void {
    this.#worker.terminate();
  }
}
