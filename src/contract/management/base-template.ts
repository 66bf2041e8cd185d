/** The built-in template that clients use by default. Its ids are the same on every server. */
export const BASE_TEMPLATE = {
  id: "sandlotbase000000000",
  buildId: "5a4d1075-ba5e-4000-8000-000000000001",
  alias: "base",
  cpuCount: 2,
  memoryMB: 1024,
  diskSizeMB: 10_240,
  defaultUser: "user",
  defaultWorkdir: "/home/user",
} as const;
