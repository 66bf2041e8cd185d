/** For tests: an edge and its listeners in this process, in front of a management API. */
import { Edge } from "../../edge/edge.ts";
import { EdgeListener } from "../../edge/front/edge-listener.ts";
import type { ClientListener, ClientListeners, ListenerSettings } from "../../edge/front/listeners.ts";
import { serveManagement } from "../../edge/management-server.ts";
import { TrustedProxies } from "../../edge/routing/client-address.ts";
import { idleServices } from "../../edge/testing/idle-services.ts";
import { routeToNewestListener } from "../../tls/shared-port.ts";

type Management = Parameters<typeof serveManagement>[0];

export class OwnFronts implements ClientListeners {
  readonly #edge: Edge;

  constructor(services: Management) {
    const { trustedProxies = new TrustedProxies([]) } = services;
    this.#edge = new Edge({ ...idleServices(), management: serveManagement(services).socket, trustedProxies });
  }

  async begin(settings: ListenerSettings): Promise<ClientListener> {
    const front = new EdgeListener({ ...settings, reusePort: true, handle: this.#edge.handle });
    if (settings.tls !== undefined) routeToNewestListener(settings.port);
    return { stop: (force) => front.stop(force) };
  }
}
