/** What a browser is told when it asks whether a page may talk to a runtime: every page may, without credentials. */
export const RUNTIME_CORS_METHODS = "HEAD, GET, POST, PUT, PATCH, DELETE";
export const RUNTIME_CORS_MAX_AGE_SECONDS = "7200";
