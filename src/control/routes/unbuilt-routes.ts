/**
 * Endpoints that clients know and that are not built yet. They are refused by name: an endpoint that is merely unknown
 * reads to a client as a sandbox or a template that does not exist.
 */
export const UNBUILT_ROUTES: readonly string[] = [
  "GET /secrets",
  "POST /secrets",
  "GET /secrets/{secretID}",
  "POST /secrets/{secretID}",
  "DELETE /secrets/{secretID}",
];
