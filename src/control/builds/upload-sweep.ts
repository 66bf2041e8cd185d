/** Periodically removes uploaded files that no build has used for long. */
import type { Background } from "../../base/background.ts";
import type { Clock, Timer } from "../../base/clock.ts";
import { UPLOADS_SWEEP_MS } from "../limits.ts";
import type { Uploads } from "./uploads.ts";

interface SweepServices {
  clock: Clock;
  background: Background;
  uploads: Uploads;
  builds: { readonly filesInUse: ReadonlySet<string> };
}

export class UploadSweep {
  readonly #services: SweepServices;
  #timer: Timer | undefined;

  constructor(services: SweepServices) {
    this.#services = services;
  }

  start(): void {
    const { clock, background, uploads, builds } = this.#services;
    this.#timer = clock.after(UPLOADS_SWEEP_MS, () => {
      background.run("uploaded files could not be removed", () => uploads.sweep(() => builds.filesInUse));
      this.start();
    });
  }

  close(): void {
    this.#timer?.cancel();
  }
}
