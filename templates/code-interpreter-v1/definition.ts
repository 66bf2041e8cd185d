/** Runs code of several languages, cell by cell, for `@e2b/code-interpreter`. */
import type { TemplateDefinition } from "../../src/contract/template-definition.ts";

/** What nearly everybody imports, and what else the original has and Debian, too. */
const PYTHON = [
  "ipykernel",
  "ipython",
  "numpy",
  "pandas",
  "matplotlib",
  "pil",
  "orjson",
  "nbformat",
  "plotly",
  "scipy",
  "sklearn",
  "skimage",
  "seaborn",
  "sympy",
  "bs4",
  "imageio",
  "joblib",
  "nltk",
  "numba",
  "opencv",
  "openpyxl",
  "docx",
  "tz",
  "requests",
  "soundfile",
  "xarray",
  "xlrd",
  "aiohttp",
  "pytest",
  "tornado",
];

export const codeInterpreter: TemplateDefinition = {
  name: "code-interpreter-v1",
  id: "sandlotinterpreter00",
  description: "Python, JavaScript, TypeScript, bash, R and Java, cell by cell",
  packages: [
    ...PYTHON.map((name) => `python3-${name}`),
    "r-base-core",
    "r-cran-irkernel",
    "openjdk-21-jdk-headless",
    "fonts-noto-cjk",
  ],
  finish: [],
  npm: { folder: "npm", target: "/opt/sandlot/javascript" },
  programs: {
    "/opt/sandlot/interpreter/server.js": "src/interpreter/main.ts",
    "/opt/sandlot/javascript/runner.mjs": "src/interpreter/runners/javascript/node/main.ts",
  },
  start: {
    command: "sudo /opt/sandlot/interpreter/keep-server",
    // Kernels that run in the snapshot are there for whoever asks first.
    ready: "curl -sf http://localhost:49999/health && sudo test -e /run/sandlot-interpreter/warm",
  },
  cpuCount: 2,
  memoryMB: 2048,
  diskSizeMB: 10_240,
};
