/** CORS of the runtime: every web page may call it, without credentials. */
export const RUNTIME_CORS_METHODS = "HEAD, GET, POST, PUT, PATCH, DELETE";
export const RUNTIME_CORS_MAX_AGE_SECONDS = "7200";
