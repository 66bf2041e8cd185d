/** The client of a request, as far as the connection shows. */
export interface Client {
  /** Source address of the connection. */
  address: string;
  /** The request came through a proxy that the operator trusts, so its forwarding headers count. */
  fromTrustedProxy: boolean;
  /** It arrived over TLS. */
  isSecure?: boolean;
}
