/** For tests: follows the directory as an edge does, in the simplest possible way. */
import type { Directory, Route } from "../../contract/internal/directory.ts";

export interface FollowedRoute extends Route {
  /** The run is over. */
  isOver: boolean;
}

export class FollowedRoutes {
  readonly #routes = new Map<string, FollowedRoute>();

  constructor(directory: Directory) {
    directory.follow((sent) => {
      const event: typeof sent = JSON.parse(JSON.stringify(sent));
      if (event.kind === "over") this.#end(event.sandboxId, event.runId);
      else for (const route of event.kind === "table" ? event.routes : [event.route]) this.#enter(route);
    });
  }

  find(sandboxId: string): FollowedRoute | undefined {
    const route = this.#routes.get(sandboxId);
    return route?.isOpen ? route : undefined;
  }

  #enter(route: Route): void {
    const known = this.#routes.get(route.sandboxId);
    if (known?.runId === route.runId) Object.assign(known, route);
    else this.#routes.set(route.sandboxId, { ...route, isOver: false });
  }

  #end(sandboxId: string, runId: string): void {
    const known = this.#routes.get(sandboxId);
    if (known?.runId !== runId) return;
    known.isOver = true;
    this.#routes.delete(sandboxId);
  }
}
