/** Serves the management interface to the front, through Bun's own server, with the address of the client. */

import { InnerServer } from "./inner-server.ts";
import { clientAddress, isFromProxy, TrustedProxies } from "./routing/client-address.ts";

interface ManagementServices {
  /** Handles requests that name no sandbox. */
  management(request: Request, client: ManagementClient): Promise<Response>;
  /** Proxies whose forwarding headers are trusted. Default: none. */
  trustedProxies?: TrustedProxies;
  /** Idle timeout of a request, if not the default. */
  idleSeconds?: number;
}

/** The client of a management request. */
interface ManagementClient {
  address: string;
  /** The request came through a proxy that the operator trusts, so its forwarding headers count. */
  fromTrustedProxy: boolean;
  isSecure: boolean;
}

export const NO_PROXIES = new TrustedProxies([]);

export function serveManagement({ management, trustedProxies = NO_PROXIES, idleSeconds }: ManagementServices) {
  return new InnerServer(
    (request, { address, isSecure }) =>
      management(request, {
        address: clientAddress(address, request.headers, trustedProxies),
        fromTrustedProxy: isFromProxy(address, trustedProxies),
        isSecure,
      }),
    idleSeconds,
  );
}
