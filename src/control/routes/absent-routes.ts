/**
 * Endpoints of the same API that manage a fleet of machines. This server is one machine, operated by its root user, so
 * they are refused by name, with the alternative.
 */

const ONE_NODE = "there is one node, and GET /health tells whether it serves";
const NO_CLUSTERS = "there are no clusters and no scaling groups";

/** `METHOD /path`, and the alternative. */
export const ABSENT_ROUTES: Readonly<Record<string, string>> = {
  "GET /nodes": ONE_NODE,
  "GET /nodes/{nodeID}": ONE_NODE,
  "POST /nodes/{nodeID}": ONE_NODE,
  "POST /admin/teams/{teamID}/sandboxes/kill":
    "DELETE /sandboxes/{sandboxID} kills one, and sandlot down all of the server",
  "GET /admin/sandboxes/running-counts": "GET /v2/sandboxes counts those of a team in X-Total-Running",
  "GET /admin/sandboxes/{sandboxID}": "GET /sandboxes/{sandboxID} shows a team its own",
  "POST /admin/teams/{teamID}/builds/cancel": "a new build of a template cancels the one under way",
  "POST /admin/teams/{teamID}/api-keys": "sandlot keys create makes one, and POST /api-keys",
  "DELETE /admin/teams/{teamID}/api-keys/{apiKeyID}":
    "sandlot keys revoke deletes one, and DELETE /api-keys/{apiKeyID}",
  "GET /clusters/{clusterID}/rigs": NO_CLUSTERS,
  "PUT /clusters/{clusterID}/rigs/{rigID}/capacity": NO_CLUSTERS,
  "GET /clusters/{clusterID}/rigs/{rigID}/instances": NO_CLUSTERS,
  "DELETE /clusters/{clusterID}/rigs/{rigID}/instances/{instanceID}": NO_CLUSTERS,
  "GET /clusters/{clusterID}/rigs/{rigID}/errors": NO_CLUSTERS,
};
