/**
 * The only error type that clients see. Every error becomes a Fault first: `status` is the HTTP status (and the numeric
 * `code` of a management error body), `message` says what was wrong and what to do about it, `cause` is kept for logs
 * and never sent.
 */
export class Fault extends Error {
  override readonly name = "Fault";
  readonly status: number;
  /** Machine-readable detail for clients that look for it; an open set. */
  readonly errorCode: string | undefined;
  /** Extra response headers. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    message: string,
    options: { cause?: unknown; errorCode?: string; headers?: Record<string, string>; retryAfterSeconds?: number } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.status = status;
    this.errorCode = options.errorCode;
    const { retryAfterSeconds, headers } = options;
    this.headers =
      retryAfterSeconds === undefined ? { ...headers } : { ...headers, "Retry-After": String(retryAfterSeconds) };
  }

  /** The single conversion point: any thrown value becomes a Fault. Unknown errors become a blank 500. */
  static from(thrown: unknown): Fault {
    if (thrown instanceof Fault) return thrown;
    if (thrown instanceof UncertainOutcome) {
      return new Fault(503, thrown.message, { cause: thrown.cause, retryAfterSeconds: thrown.retryAfterSeconds });
    }
    return new Fault(500, "internal error; the server's log has the details under this request's id", {
      cause: thrown,
    });
  }

  /** The body of every management error and of the runtime's plain endpoints. */
  toBody(): { code: number; message: string; error_code?: string } {
    const body = { code: this.status, message: this.message };
    return this.errorCode === undefined ? body : { ...body, error_code: this.errorCode };
  }
}

/**
 * A change whose reply was lost: it may have been made or not. No Fault, because the code that began the change must
 * find out; for a client it becomes a Fault 503.
 */
export class UncertainOutcome extends Error {
  override readonly name = "UncertainOutcome";

  constructor(
    message: string,
    readonly retryAfterSeconds: number,
    cause: unknown,
  ) {
    super(message, { cause });
  }
}
