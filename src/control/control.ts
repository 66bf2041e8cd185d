/**
 * Control: the management API. It parses requests, decides what happens to sandboxes, calls the host to do it and
 * the store to record it. `routes.ts` lists the endpoints, `lifecycle.ts` the states of a sandbox. Control never
 * touches the machine (the host does) and never carries a sandbox's traffic (the edge does).
 */
import { Background } from "../base/background.ts";
import type { Blobs } from "../blobs/blobs.ts";
import type { Directory } from "../contract/internal/directory.ts";
import type { VolumeContent } from "../contract/internal/volume-content.ts";
import type { MachineReadings } from "../contract/management/admin.ts";
import type { Client } from "./access/authentication.ts";
import { Logins } from "./access/logins.ts";
import { SignedLinks } from "./access/signed-links.ts";
import { Activity, type ActivityOptions } from "./activity/activity.ts";
import { AuditLog } from "./audit/audit.ts";
import { RequestBudgets, type RequestRates } from "./budgets/request-rates.ts";
import { BUILD_LIMITS_DEFAULT, type BuildLimits } from "./builds/build-limits.ts";
import type { TemplateOf } from "./builds/build-plan.ts";
import { Builds } from "./builds/builds.ts";
import { BuiltinBuilds } from "./builds/builtin-builds.ts";
import { Uploads } from "./builds/uploads.ts";
import { createDispatch } from "./http/dispatch.ts";
import { IdempotentCreates } from "./lifecycle/idempotent-creates.ts";
import { Lifecycle } from "./lifecycle/lifecycle.ts";
import type { MemoryBound } from "./lifecycle/promised-memory.ts";
import { LoginPages } from "./login/login-pages.ts";
import { OAuthEndpoints } from "./login/oauth-endpoints.ts";
import { OidcLogin, type OidcSettings } from "./login/oidc-login.ts";
import { Operator } from "./operator.ts";
import type { Parts } from "./parts.ts";
import { PrivateNetworks } from "./private-networks.ts";
import { ABSENT_ROUTES } from "./routes/refused-routes.ts";
import { routes } from "./routes/routes.ts";
import { IdentityIssuer } from "./secrets/identity-issuer.ts";
import { RuleAnswers } from "./secrets/rule-answers.ts";
import { SecretUses } from "./secrets/secret-uses.ts";
import { Secrets } from "./secrets/secrets.ts";
import { type SecretsKeySource, SecretsKeys } from "./secrets/secrets-keys.ts";
import { TeamDeletion } from "./team-deletion.ts";
import type { BuiltinDefinition } from "./templates/builtin-definition.ts";
import { Housekeeping } from "./templates/housekeeping.ts";
import { ReadyPoolTargets } from "./templates/ready-pool-targets.ts";
import type { SharedMemory } from "./templates/shared-memory.ts";
import { deleteTemplate } from "./templates/template-deletion.ts";
import { type VolumeBounds, Volumes } from "./volumes/volumes.ts";

export interface Control {
  /**
   * Handles any request to the management API; never throws. Without a client, requests without a key are not
   * counted.
   */
  handle(request: Request, client?: Client): Promise<Response>;
  /** The endpoints, each as `METHOD /path`. */
  endpoints: readonly string[];
  /** The interface of the edge. */
  directory: Directory;
  operator: Operator;
  /** Recovers the sandboxes of the previous run. Until it is done, requests get 503. */
  start(): Promise<void>;
  /**
   * Builds a built-in template, unless its current version is built. Call it after `start`. Resolves when the template
   * is ready. Fault 404 for an unknown name, 422 with the reason when the build failed.
   */
  buildTemplate(name: string, report: (line: string) => void): Promise<void>;
  /** Resolves once no background work, such as ending expired sandboxes, is in progress. */
  settled(): Promise<void>;
  /**
   * Takes no more requests and waits for those in progress. Sandboxes keep running; the store and the host stay open.
   */
  close(): Promise<void>;
}

interface ControlServices extends Omit<Parts, "idleClock" | "background"> {
  blobs: Blobs;
  volumeContent: VolumeContent;
  volumeBounds?: Partial<VolumeBounds>;
  activity?: ActivityOptions;
  /** Sandboxes per built-in template in the ready pool. */
  builtinsReady: number;
  /** Built-in templates that are built on demand. */
  definitions: readonly BuiltinDefinition[];
  /** The template that the operator substitutes for an image, if any. */
  templateOf: TemplateOf;
  /** Limits of builds that differ from the defaults. */
  builds?: Partial<BuildLimits>;
  /** Requests per second and team, if they differ from the defaults. */
  requestRates?: RequestRates;
  /** Private networks open to teams without a setting of their own. */
  privateRanges: readonly string[];
  /** Teams whose sandboxes share memory. Absent: off. */
  sharedMemory?: SharedMemory;
  /** What the machine says about itself. */
  machine(): Promise<MachineReadings>;
  /** Days that entries of the audit log are kept, if not the default. */
  auditDays?: number | undefined;
  /** Bound of the memory sizes of all sandboxes together. Absent: no bound. */
  memoryBound?: MemoryBound | undefined;
  /** Signs upload links, and the tokens of logins. */
  linkSecret: Uint8Array;
  /** The key that encrypts secrets. */
  secretsKey: SecretsKeySource;
  /** Keys of metadata that become claims of workload identities. */
  identityMetadata?: readonly string[];
  /** The issuer of logins. Absent: none. */
  oidc?: OidcSettings | undefined;
  /** Public address of this interface. Default: links begin with the address of the request. */
  publicUrl?: string | undefined;
}

export function createControl(services: ControlServices): Control {
  const assembled = assemble(services);
  const { parts, activity, lifecycle, builds, builtins, volumes, uploads, audit, teamDeletion } = assembled;
  const { privateNetworks, readyPoolTargets, housekeeping, signedLinks } = assembled;
  const { secretsKeys, secretUses, identity, ruleAnswers } = assembled;
  const { store, host, background } = parts;
  host.events((event) => {
    lifecycle.onHostEvent(event);
    activity.onHostEvent(event);
    builds.onHostEvent(event);
    ruleAnswers.onHostEvent(event);
  });
  let ready = false;
  const isReady = () => ready;
  const dispatch = dispatchTo(assembled, services, isReady);
  const underWay = new Set<Promise<Response>>();

  return {
    async handle(request, client) {
      const response = dispatch(request, client);
      underWay.add(response);
      try {
        return await response;
      } finally {
        underWay.delete(response);
      }
    },
    endpoints: routes.map(({ method, path }) => `${method} ${path}`),
    operator: new Operator({ store, lifecycle, audit, secretsKeys, identity, isReady }),
    directory: {
      follow: (listener) => lifecycle.followRoutes(listener),
      wake: (sandboxId, request) => lifecycle.wake(sandboxId, request),
      forward: (sandboxId, port) => host.forward(sandboxId, port),
      findSigned: (link, client) => signedLinks.find(link, client),
    },
    async start() {
      await secretsKeys.start();
      await lifecycle.start();
      await builds.recover();
      await volumes.start();
      await activity.start();
      builtins.start();
      uploads.start(() => builds.filesInUse);
      privateNetworks.start();
      readyPoolTargets.start();
      housekeeping.soon();
      audit.start();
      await teamDeletion.start();
      ready = true;
    },
    buildTemplate: (name, report) => builtins.build(name, report),
    async settled() {
      await lifecycle.settled();
      await background.settled();
      await activity.settled();
    },
    async close() {
      ready = false;
      teamDeletion.close();
      builtins.close();
      readyPoolTargets.close();
      housekeeping.close();
      lifecycle.beginClose();
      uploads.close();
      privateNetworks.close();
      ruleAnswers.close();
      volumes.close();
      await Promise.allSettled(underWay);
      await builds.close();
      await lifecycle.close();
      await background.settled();
      await audit.close();
      await secretUses.close().catch(() => undefined);
      await activity.close();
    },
  };
}

/** Makes the parts of control. Some call each other, so the functions that they get name parts that are made later. */
function assemble(services: ControlServices) {
  const { store, host, clock, ids, log, definitions, sharedMemory = "off" } = services;
  const background = new Background(log);
  const parts: Parts = { store, host, clock, idleClock: services.activity?.idleClock ?? clock, ids, log, background };
  const activity = new Activity(parts, services.activity);
  const readyPoolTargets = new ReadyPoolTargets(parts, services.builtinsReady, definitions, sharedMemory);
  const privateNetworks = new PrivateNetworks(
    { ...parts, renew: (teamId) => lifecycle.renewEgress(teamId) },
    services.privateRanges,
  );
  const privateRangesOf = (teamId: string | undefined) => privateNetworks.rangesOf(teamId);
  const lifecycle = new Lifecycle({
    ...parts,
    listener: activity,
    privateRangesOf,
    sharedMemory,
    memoryBound: services.memoryBound,
    idle: (ids) => activity.metrics.idle(ids),
    checkpointReplaced: () => readyPoolTargets.changed(),
  });
  const housekeeping = new Housekeeping({
    ...parts,
    endAbandonedBuilds: () => builds.unstarted.endAbandoned(),
    newImages: () => builds.newImages,
    discard: (checkpoints) => lifecycle.discard(checkpoints),
  });
  const buildLimits = { ...BUILD_LIMITS_DEFAULT, ...services.builds };
  const uploads = new Uploads({ ...parts, blobs: services.blobs }, services.linkSecret, buildLimits.uploadMaxBytes);
  const builds = new Builds(
    {
      ...parts,
      uploads,
      templateOf: services.templateOf,
      unbuilt: (template, tag) => builtins.unbuilt(template, tag),
      requireReady: () => lifecycle.draining.requireReady(),
      privateRangesOf,
      discard: (checkpoints) => lifecycle.discard(checkpoints),
      becameReady: () => readyPoolTargets.changed(),
    },
    buildLimits,
  );
  const builtins = new BuiltinBuilds({ ...parts, builds }, definitions);
  const volumes = new Volumes(parts, services.volumeBounds);
  const audit = new AuditLog(parts, services.auditDays);
  const secretsKeys = new SecretsKeys(parts, services.secretsKey);
  const secrets = new Secrets(parts, secretsKeys);
  const secretUses = new SecretUses(parts);
  const identity = new IdentityIssuer(parts, secretsKeys, {
    issuer: services.publicUrl,
    metadata: services.identityMetadata ?? [],
  });
  const ruleAnswers = new RuleAnswers({
    ...parts,
    keys: secretsKeys,
    identity,
    uses: secretUses,
    warn: (sandbox, message) => activity.warn(sandbox, message),
  });
  const logins = new Logins(parts, audit, services.linkSecret);
  const signedLinks = new SignedLinks(services);
  const teamDeletion = new TeamDeletion({
    ...parts,
    builds,
    readyPoolTargets,
    housekeeping,
    lifecycle,
    volumes,
    uploads,
    activity,
  });
  return {
    parts,
    activity,
    readyPoolTargets,
    privateNetworks,
    lifecycle,
    housekeeping,
    uploads,
    builds,
    builtins,
    volumes,
    audit,
    logins,
    signedLinks,
    secretsKeys,
    secrets,
    secretUses,
    identity,
    ruleAnswers,
    teamDeletion,
  };
}

function dispatchTo(
  assembled: ReturnType<typeof assemble>,
  services: ControlServices,
  isReady: () => boolean,
): ReturnType<typeof createDispatch> {
  const { parts, activity, readyPoolTargets, lifecycle, housekeeping, uploads, builds, builtins, volumes } = assembled;
  const { audit, logins, teamDeletion, secrets, secretUses, identity } = assembled;
  const deleting = { ...parts, builds, readyPoolTargets, housekeeping, lifecycle };
  return createDispatch({
    routes,
    absent: ABSENT_ROUTES,
    services: {
      ...parts,
      readyPoolTargets,
      builds,
      unbuilt: (template, tag) => builtins.unbuilt(template, tag),
      definitions: services.definitions,
      uploads,
      deleteTemplate: (...args) => deleteTemplate(deleting, ...args),
      deleteTeam: (team, origin) => teamDeletion.begin(team, origin),
      lifecycle,
      idempotentCreates: new IdempotentCreates(parts),
      volumes,
      secrets,
      secretUses,
      identity,
      volumeContent: services.volumeContent,
      activity,
      machine: services.machine,
      instanceId: parts.ids.uuid(),
      isReady,
    },
    ...parts,
    logins,
    audit,
    pages: [
      ...new LoginPages(parts, logins, audit, services.oidc && new OidcLogin(parts, services.oidc)).pages,
      ...new OAuthEndpoints(parts, logins).pages,
      ...identity.pages,
    ],
    budgets: new RequestBudgets(parts.clock, services.requestRates),
    publicUrl: services.publicUrl,
    isReady,
    volumeOf: (token) => volumes.opened(token),
    // A client that gets a response finds its event recorded, even after a crash.
    recorded: () => activity.recorded(),
  });
}
