/** Where clients connect, wherever that is: in this process for tests, in processes of its own for a server. */
export interface Fronts {
  /**
   * Resolves when clients can connect. Where two with TLS share a port, new connections come to the later one.
   */
  begin(settings: FrontSettings): Promise<Listening>;
}

export interface FrontSettings {
  hostname: string;
  port: number;
  tls?: { cert: string; key: string };
  /** How long a connection may be silent between two requests. */
  idleMs: number;
}

export interface Listening {
  /** Whether a request is being answered, or a tunnel open. */
  carriesAnything(): Promise<boolean>;
  /** Takes no more connections. Resolves when there are none; unless `force`, what has begun is finished. */
  stop(force: boolean): Promise<void>;
}
