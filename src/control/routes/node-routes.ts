/** The routes of nodes. This machine is the only one. */
import { z } from "zod";
import { Fault } from "../../contract/fault.ts";
import { MIB } from "../../contract/limit.ts";
import { changedNode, type Node, node, nodeQuery } from "../../contract/management/admin.ts";
import { quoted } from "../../contract/quoted-text.ts";
import { type Route, route, type Services } from "./services.ts";

/** There are no clusters. */
const LOCAL_CLUSTER = "00000000-0000-0000-0000-000000000000";
const NODE_ID = "local";

export const nodeRoutes: readonly Route[] = [
  route("GET /nodes", {
    auth: "admin",
    summary: "List the nodes: this machine",
    query: nodeQuery,
    success: [{ status: 200, description: "One node", schema: z.array(node) }],
    async handle({ query }, services) {
      requireLocalCluster(query.clusterID);
      return { body: [await asNode(services)] };
    },
  }),
  route("GET /nodes/{nodeID}", {
    auth: "admin",
    summary: "Get this machine: status, load, sandboxes",
    query: nodeQuery,
    success: [{ status: 200, description: "The node", schema: node }],
    async handle({ params, query }, services) {
      requireLocal(params.nodeID);
      requireLocalCluster(query.clusterID);
      return { body: await asNode(services) };
    },
  }),
  route("POST /nodes/{nodeID}", {
    auth: "admin",
    summary: "Set the status: draining lets no sandbox start or resume, ready lifts that",
    body: { schema: changedNode, required: true },
    success: [{ status: 204, description: "Set; it survives a restart" }],
    errors: [409],
    async handle({ params, body: { status, clusterID } }, { lifecycle }) {
      requireLocal(params.nodeID);
      requireLocalCluster(clusterID);
      if (status !== "ready" && status !== "draining") {
        throw new Fault(409, `a node cannot be set to "${status}"; send ready or draining`);
      }
      await lifecycle.draining.change(status);
      return {};
    },
  }),
];

async function asNode({ store, lifecycle, machine, instanceId }: Services): Promise<Node> {
  const [readings, allocated] = [await machine(), await store.sandboxes.allocated()];
  const { status, changedAt } = lifecycle.draining.status;
  const { succeeded, failed, underWay } = lifecycle.starts;
  return {
    id: NODE_ID,
    serviceInstanceID: instanceId,
    clusterID: LOCAL_CLUSTER,
    status,
    statusChangedAt: new Date(changedAt).toISOString(),
    sandboxCount: allocated.count,
    sandboxStartingCount: underWay,
    createSuccesses: succeeded,
    createFails: failed,
    version: readings.version,
    commit: readings.version,
    metrics: {
      ...readings.metrics,
      allocatedCPU: allocated.cpuCount,
      allocatedMemoryBytes: allocated.memoryMB * MIB,
      // Sandboxes use no huge pages.
      hugePagesTotal: 0,
      hugePagesUsed: 0,
      hugePagesReserved: 0,
      hugePageSizeBytes: 0,
    },
    machineInfo: readings.machineInfo,
  };
}

function requireLocal(id: string): void {
  if (id !== NODE_ID) throw new Fault(404, `there is no node ${quoted(id)}; this machine is "${NODE_ID}"`);
}

function requireLocalCluster(id = LOCAL_CLUSTER): void {
  if (id !== LOCAL_CLUSTER)
    throw new Fault(404, `there is no cluster ${quoted(id)}; this machine is "${LOCAL_CLUSTER}"`);
}
