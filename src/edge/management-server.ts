/** The management interface, as the front finds it: behind a server of Bun's, with who the client is. */

import { InnerServer } from "./inner-server.ts";
import { clientAddress, isFromProxy, TrustedProxies } from "./routing/client-address.ts";

interface ManagementServices {
  /** Answers what names no sandbox. */
  management(request: Request, client: ManagementClient): Promise<Response>;
  /** Whose word about the client's address is taken; nobody's unless given. */
  trustedProxies?: TrustedProxies;
  /** How long a request may be silent, if not for the usual time. */
  idleSeconds?: number;
}

/** Who asks the management interface. */
interface ManagementClient {
  address: string;
  /** What the request says of where it comes from is a proxy's word, and the operator takes that. */
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
