/**
 * The runtime version reported to clients as `envdVersion`. Clients switch features on by it, so it names what is
 * built.
 */
export const RUNTIME_VERSION = "0.6.13";

/** The port the guest listens on in every sandbox. */
export const RUNTIME_PORT = 49983;
