/** What the server and a process of the edge call each other for: plain data in and out. */

import type { Step } from "../../base/steps.ts";
import type { Directory } from "../../contract/internal/directory.ts";
import type { FrontSettings } from "../front/fronts.ts";
import type { InnerDoor } from "../inner-server.ts";
import type { ConnectionLimits } from "../limits.ts";
import type { PlacedEvent } from "../routing/route-table.ts";

/** What the server calls in the process. */
export interface ProcessCalls {
  /** The first of all. */
  begin(settings: ProcessSettings): void;
  take(event: PlacedEvent): void;
  /** When it answers, nothing is carried to this address any more. */
  leave(host: string): void;
  listen(front: number, settings: FrontSettings): void;
  carriesAnything(front: number): boolean;
  /** As with a front. */
  stopListening(front: number, force: boolean): Promise<void>;
  /** Whether it is still of use. */
  ping(): void;
}

/** What the process calls in the server. */
export interface ServerCalls extends Omit<Directory, "follow"> {
  log(message: string, context: Record<string, unknown>): void;
  /** A step of this process; the numbers are its own. Only if steps are recorded. */
  stepBegan(number: number, name: string): void;
  stepEnded(number: number, as: Pick<Step, "beganAt" | "wallMs" | "uses">): void;
}

export interface ProcessSettings {
  /** Of so many; this is the number of it, from 0 on. */
  processes: number;
  process: number;
  /** Where all of them count what they carry. */
  countsFile: string;
  management: InnerDoor;
  trustedProxies: readonly string[];
  limits: ConnectionLimits;
  /** Whether somebody wants to know of each step. */
  recordsSteps: boolean;
}
