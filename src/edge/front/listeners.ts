/** Starts listeners for clients: in this process for tests, in separate processes for a server. */
export interface ClientListeners {
  /** Resolves when clients can connect. If two listeners with TLS share a port, new connections go to the later one. */
  begin(settings: ListenerSettings): Promise<ClientListener>;
}

export interface ListenerSettings {
  hostname: string;
  port: number;
  tls?: { cert: string; key: string };
  /** Idle timeout between two requests. */
  idleMs: number;
}

export interface ClientListener {
  /** Stops accepting connections. Resolves when none are left; requests in progress finish first unless `force`. */
  stop(force: boolean): Promise<void>;
}
