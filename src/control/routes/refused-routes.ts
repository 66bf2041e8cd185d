/**
 * Known endpoints of the API that this server does not have. They are rejected by name: clients would take a plain 404
 * for a missing sandbox or template.
 */

const NO_CLUSTERS = "there are no clusters and no scaling groups";

/** Endpoints for a fleet of machines, each with the alternative on this one machine. */
export const ABSENT_ROUTES: Readonly<Record<string, string>> = {
  "GET /clusters/{clusterID}/rigs": NO_CLUSTERS,
  "PUT /clusters/{clusterID}/rigs/{rigID}/capacity": NO_CLUSTERS,
  "GET /clusters/{clusterID}/rigs/{rigID}/instances": NO_CLUSTERS,
  "DELETE /clusters/{clusterID}/rigs/{rigID}/instances/{instanceID}": NO_CLUSTERS,
  "GET /clusters/{clusterID}/rigs/{rigID}/errors": NO_CLUSTERS,
};
