/**
 * Endpoints that clients know and that are not built yet. They are refused by name: an endpoint that is merely unknown
 * reads to a client as a sandbox or a template that does not exist.
 */
export const UNBUILT_ROUTES: readonly string[] = [
  "PUT /sandboxes/{sandboxID}/network",
  "GET /volumes",
  "POST /volumes",
  "GET /volumes/{volumeID}",
  "DELETE /volumes/{volumeID}",
  "GET /volumecontent/{volumeID}/path",
  "PATCH /volumecontent/{volumeID}/path",
  "DELETE /volumecontent/{volumeID}/path",
  "GET /volumecontent/{volumeID}/dir",
  "POST /volumecontent/{volumeID}/dir",
  "GET /volumecontent/{volumeID}/file",
  "PUT /volumecontent/{volumeID}/file",
  "GET /secrets",
  "POST /secrets",
  "GET /secrets/{secretID}",
  "POST /secrets/{secretID}",
  "DELETE /secrets/{secretID}",
];
