/** Who sends a request, as far as the connection tells. */
export interface Client {
  /** The address that it comes from. */
  address: string;
  /** What the request says of where it comes from is a proxy's word, and the operator takes that. */
  fromTrustedProxy: boolean;
  /** It came by TLS. */
  isSecure?: boolean;
}
