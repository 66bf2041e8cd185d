/**
 * Known endpoints of the API that this server does not have. They are refused by name: clients would take a plain 404
 * for a missing sandbox or template.
 */

const ONE_NODE = "there is one node; GET /health shows whether it accepts requests";
const NO_CLUSTERS = "there are no clusters and no scaling groups";

/** They manage a fleet of machines, but this server is one machine, operated by its root user: the alternative. */
export const ABSENT_ROUTES: Readonly<Record<string, string>> = {
  "GET /nodes": ONE_NODE,
  "GET /nodes/{nodeID}": ONE_NODE,
  "POST /nodes/{nodeID}": ONE_NODE,
  "POST /admin/teams/{teamID}/sandboxes/kill": "DELETE /sandboxes/{sandboxID} kills one sandbox, sandlot down all",
  "GET /admin/sandboxes/running-counts": "GET /v2/sandboxes returns a team's count in X-Total-Running",
  "GET /admin/sandboxes/{sandboxID}": "GET /sandboxes/{sandboxID} shows sandboxes of the caller's team",
  "POST /admin/teams/{teamID}/builds/cancel": "a new build of a template cancels the running one",
  "POST /admin/teams/{teamID}/api-keys": "use sandlot keys create or POST /api-keys",
  "DELETE /admin/teams/{teamID}/api-keys/{apiKeyID}": "use sandlot keys revoke or DELETE /api-keys/{apiKeyID}",
  "GET /clusters/{clusterID}/rigs": NO_CLUSTERS,
  "PUT /clusters/{clusterID}/rigs/{rigID}/capacity": NO_CLUSTERS,
  "GET /clusters/{clusterID}/rigs/{rigID}/instances": NO_CLUSTERS,
  "DELETE /clusters/{clusterID}/rigs/{rigID}/instances/{instanceID}": NO_CLUSTERS,
  "GET /clusters/{clusterID}/rigs/{rigID}/errors": NO_CLUSTERS,
};

/** Not built yet. */
export const UNBUILT_ROUTES: readonly string[] = [
  "GET /secrets",
  "POST /secrets",
  "GET /secrets/{secretID}",
  "POST /secrets/{secretID}",
  "DELETE /secrets/{secretID}",
];
