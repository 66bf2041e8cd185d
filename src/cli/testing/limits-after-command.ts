/** Runs `sandlot help` as a user does, and prints a timeout that is loaded after it. */
const exit = process.exit;
process.exit = ((code: number) => void tell(code)) as typeof exit;
process.argv.splice(2, process.argv.length, "help");
await import("../main.ts");

async function tell(code: number): Promise<void> {
  const { GUEST_READY_MS } = await import("../../sandbox/guest-link/guest-client.ts");
  console.log(GUEST_READY_MS, process.env.SANDLOT_TIME_FACTOR);
  exit(code);
}

export {};
