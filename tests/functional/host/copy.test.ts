/** Copies of a running sandbox on the real machine. What they share with it: tests/workloads/copy-state.ts. */
import { describe, expect, test } from "bun:test";
import { RUNTIME_PORT } from "../../../src/contract/runtime/version.ts";
import { Line, shell } from "../../support/inside.ts";
import { MachineOfFile, request } from "../../support/machine-of-file.ts";
import { askService, startService } from "../../support/memory-service.ts";
import { readySandbox } from "../../support/ready-sandbox.ts";
import { until } from "../../support/until.ts";

const here = new MachineOfFile("copy");

describe("a copy", () => {
  test("without memory has the files of its original and a new machine id", async () => {
    await here.withSandbox(async (id) => {
      await shell(here.data, id, "echo original > /home/file");
      await here.machine.snapshot(id, "cold", { memory: false });
      await shell(here.data, id, "echo changed > /home/file");
      const cold = await here.machine.create({ ...request, checkpoint: "cold" });
      expect(await shell(here.data, cold.id, "cat /home/file")).toBe("original");
      const [own, copied] = [id, cold.id].map((of) => shell(here.data, of, "cat /etc/machine-id"));
      expect(await copied).not.toBe((await own) ?? "");
      await here.machine.destroy(cold.id);
      await here.machine.removeCheckpoint("cold");
    });
  });

  // Its guest does not know its settings yet: it looks for them at the first request.
  test("of a ready sandbox that had no requests yet has its own machine id and tokens", async () => {
    await readySandbox(here);
    const { id } = await here.machine.create({ ...request, egress: "open", accessTokens: ["token"] });
    await here.machine.snapshot(id, "unasked", { memory: true });
    const copy = await here.machine.create({ ...request, checkpoint: "unasked", accessTokens: ["other"] });
    const [original, copied] = await Promise.all(
      [id, copy.id].map((of) => shell(here.data, of, "cat /etc/machine-id")),
    );
    expect(copied).not.toBe(original ?? "");
    const status = async (of: string, token: string) => {
      const headers = { "x-access-token": token };
      return (await fetch(`http://${here.machine.addressOf(of)}:${RUNTIME_PORT}/metrics`, { headers })).status;
    };
    expect([await status(id, "token"), await status(id, "other")]).toEqual([200, 401]);
    expect([await status(copy.id, "token"), await status(copy.id, "other")]).toEqual([401, 200]);
    await here.machine.keepReady([]);
    await here.machine.destroy(id);
    await here.machine.destroy(copy.id);
    await here.machine.removeCheckpoint("unasked");
  });
});

describe("connections to the outside", () => {
  test("are closed by a resume and in a copy, and stay open in the original", async () => {
    const { id } = await here.machine.create(request);
    // A connection from the machine to a service inside, like the edge's: the service echoes data and reports when the
    // connection broke.
    const echo = `
ended = []
echo = socket.create_server(("0.0.0.0", 5678))
def serve(client):
    try:
        while True:
            line = client.recv(100)
            if not line: raise EOFError()
            client.sendall(line)
    except (OSError, EOFError) as error: ended.append(type(error).__name__)
def accept():
    while True: threading.Thread(target=serve, args=(echo.accept()[0],), daemon=True).start()
threading.Thread(target=accept, daemon=True).start()`;
    await startService(here.machine, id, echo, "return ended");
    const line = await Line.open(here.machine.addressOf(id) ?? "", 5678);
    expect(await line.echo("one")).toBe("one");
    await here.machine.snapshot(id, "outside", { memory: true });
    expect(await line.echo("two")).toBe("two");
    const copy = await here.machine.create({ ...request, checkpoint: "outside" });
    let output = "";
    const broken = async (which: string) => {
      output = await askService(here.machine, which);
      return output.includes("ConnectionAbortedError");
    };
    await until(
      () => `the copy's connection breaks, but it says ${output}`,
      () => broken(copy.id),
    );
    expect(await broken(id)).toBe(false);
    expect(await line.echo("three")).toBe("three");
    await here.machine.pause(id, "outside-2", { memory: true });
    await here.machine.resume({ ...request, id, checkpoint: "outside-2", memory: true });
    await until(
      () => `the connection breaks, but it says ${output}`,
      () => broken(id),
    );
    line.close();
    await here.machine.destroy(id);
    await here.machine.destroy(copy.id);
    for (const name of ["outside", "outside-2"]) await here.machine.removeCheckpoint(name);
  });
});
