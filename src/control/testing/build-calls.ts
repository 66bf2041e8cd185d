/** Template builds through the management API, for tests on a fixture. */
import { expect } from "bun:test";
import type { BuildOutcome, BuildRequest } from "../../contract/internal/host.ts";
import type { BuildInfo } from "../../contract/management/template-build.ts";
import type { ControlFixture, Reply } from "./control-fixture.ts";

export interface Requested {
  templateID: string;
  buildID: string;
}

type Json = Record<string, unknown>;

export class BuildCalls {
  readonly #fixture: ControlFixture;

  constructor(fixture: ControlFixture) {
    this.#fixture = fixture;
  }

  /** A build that waits for its start. */
  async request(name: string, further: Json = {}, key = this.#fixture.apiKey): Promise<Requested> {
    const reply = await this.#fixture.call("POST", "/v3/templates", { name, ...further }, { "X-API-Key": key });
    expect([reply.status, reply.body]).toEqual([202, expect.anything()]);
    return reply.body as unknown as Requested;
  }

  start({ templateID, buildID }: Requested, body: Json = {}, key = this.#fixture.apiKey): Promise<Reply> {
    const path = `/v2/templates/${templateID}/builds/${buildID}`;
    return this.#fixture.call("POST", path, { fromTemplate: "base", ...body }, { "X-API-Key": key });
  }

  /** Requested and started. */
  async begin(name: string, body: Json = {}, key = this.#fixture.apiKey): Promise<Requested> {
    const requested = await this.request(name, {}, key);
    const reply = await this.start(requested, body, key);
    expect([reply.status, reply.body?.message ?? ""]).toEqual([202, ""]);
    return requested;
  }

  async status({ templateID, buildID }: Requested, query = "", key = this.#fixture.apiKey): Promise<BuildInfo> {
    const path = `/templates/${templateID}/builds/${buildID}/status${query}`;
    const reply = await this.#fixture.call("GET", path, undefined, { "X-API-Key": key });
    expect([reply.status, reply.body]).toEqual([200, expect.anything()]);
    return reply.body as unknown as BuildInfo;
  }

  /** Resolves once the build is over. */
  async ended(build: Requested, key = this.#fixture.apiKey): Promise<BuildInfo> {
    const isOver = async () => ["ready", "error"].includes((await this.status(build, "", key)).status);
    await this.#fixture.until(isOver);
    return this.status(build, "", key);
  }

  /** From now on the host's builds wait until the test ends them, with a result of its choice. */
  hold(): HeldBuilds {
    return new HeldBuilds(this.#fixture);
  }
}

const readyAs = (id: string): BuildOutcome => ({
  isReady: true,
  image: `image-${id}`,
  defaultUser: "user",
  defaultWorkdir: "/home/user",
  envVars: {},
  checkpoint: null,
});

class HeldBuilds {
  readonly requests: BuildRequest[] = [];
  readonly #ends = new Map<string, (outcome: BuildOutcome | undefined) => void>();
  readonly #fixture: ControlFixture;

  constructor(fixture: ControlFixture) {
    this.#fixture = fixture;
    fixture.host.buildAs = async (request) => {
      this.requests.push(request);
      const outcome = await new Promise<BuildOutcome | undefined>((end) => this.#ends.set(request.id, end));
      return outcome ?? readyAs(request.id);
    };
  }

  /** Resolves when the host has begun the build. */
  begun({ buildID }: Requested): Promise<void> {
    return this.#fixture.until(() => this.#ends.has(buildID));
  }

  end({ buildID }: Requested, outcome?: BuildOutcome): void {
    this.#ends.get(buildID)?.(outcome);
  }
}
