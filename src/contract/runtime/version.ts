/**
 * The runtime version reported to clients as `envdVersion`. Clients enable features by it, so it must match what is
 * built.
 */
export const RUNTIME_VERSION = "0.6.13";

/** The port of the guest in every sandbox. */
export const RUNTIME_PORT = 49983;
