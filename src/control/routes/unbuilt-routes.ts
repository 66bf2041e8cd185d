/**
 * Known endpoints that are not built yet. They are refused by name: clients would take a plain 404 for a missing
 * sandbox or template.
 */
export const UNBUILT_ROUTES: readonly string[] = [
  "GET /secrets",
  "POST /secrets",
  "GET /secrets/{secretID}",
  "POST /secrets/{secretID}",
  "DELETE /secrets/{secretID}",
];
