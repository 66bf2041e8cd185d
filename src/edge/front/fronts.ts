/** Starts listeners for clients: in this process for tests, in separate processes for a server. */
export interface Fronts {
  /** Resolves when clients can connect. If two listeners with TLS share a port, new connections go to the later one. */
  begin(settings: FrontSettings): Promise<Listening>;
}

export interface FrontSettings {
  hostname: string;
  port: number;
  tls?: { cert: string; key: string };
  /** Idle timeout between two requests. */
  idleMs: number;
}

export interface Listening {
  /** Stops accepting connections. Resolves when none are left; requests in progress finish first unless `force`. */
  stop(force: boolean): Promise<void>;
}
