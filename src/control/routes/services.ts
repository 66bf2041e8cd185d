/** The services of route handlers, and `route` typed for them. */
import type { VolumeContent } from "../../contract/internal/volume-content.ts";
import type { MachineReadings } from "../../contract/management/admin.ts";
import type { Team } from "../../store/people.ts";
import type { Activity } from "../activity/activity.ts";
import type { Origin } from "../audit/audit.ts";
import type { Builds } from "../builds/builds.ts";
import type { Uploads } from "../builds/uploads.ts";
import * as http from "../http/route.ts";
import type { IdempotentCreates } from "../lifecycle/idempotent-creates.ts";
import type { Lifecycle } from "../lifecycle/lifecycle.ts";
import type { Parts } from "../parts.ts";
import type { IdentityIssuer } from "../secrets/identity-issuer.ts";
import type { SecretUses } from "../secrets/secret-uses.ts";
import type { Secrets } from "../secrets/secrets.ts";
import type { BuiltinDefinition } from "../templates/builtin-definition.ts";
import type { ReadyPoolTargets } from "../templates/ready-pool-targets.ts";
import type { DeleteTemplate } from "../templates/template-deletion.ts";
import type { Unbuilt } from "../templates/template-lookup.ts";
import type { Volumes } from "../volumes/volumes.ts";

export interface Services extends Pick<Parts, "store" | "clock" | "ids"> {
  readyPoolTargets: ReadyPoolTargets;
  builds: Builds;
  unbuilt: Unbuilt;
  /** Definitions of the built-in templates. */
  definitions: readonly BuiltinDefinition[];
  uploads: Uploads;
  deleteTemplate: DeleteTemplate;
  /** Records the request; the rest follows in the background. */
  deleteTeam(team: Team, origin: Origin | undefined): Promise<void>;
  lifecycle: Lifecycle;
  idempotentCreates: IdempotentCreates;
  volumes: Volumes;
  secrets: Secrets;
  secretUses: SecretUses;
  identity: IdentityIssuer;
  volumeContent: VolumeContent;
  activity: Activity;
  /** What the machine says about itself. */
  machine(): Promise<MachineReadings>;
  /** New at each start of the server. */
  instanceId: string;
  isReady(): boolean;
}

export type Route = http.Route<Services>;
export const route = http.routesWith<Services>();
