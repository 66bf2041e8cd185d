/** The root filesystem of the sandboxes that fetch images: skopeo and umoci, without a shell or other users. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { chmod, copyFile, mkdir, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { FETCH_IMAGE } from "../builder/registry/fetch-tools.ts";
import { NAMESERVER_ADDRESS } from "../contract/address-plan.ts";
import { chooseImage } from "../images/cached-images.ts";
import { run } from "../system/command.ts";
import { architecture } from "../system/toolbox.ts";
import { shiftOwners } from "./base-image.ts";
import { makeImage, type SetupStep } from "./step.ts";
import { extractPackages } from "./tool-folder.ts";

/** From the tool folder's suite: its umoci can unpack without privileges, and unpack zstd layers. */
const PACKAGES = ["skopeo", "umoci", "ca-certificates"];
const PROGRAMS = ["usr/bin/skopeo", "usr/bin/umoci"];
const AUTHORITIES = "usr/share/ca-certificates/mozilla";

/** Only the digest of an image is checked, not signatures. */
const POLICY = JSON.stringify({ default: [{ type: "insecureAcceptAnything" }] });

export function fetchImageStep(cacheFolder: string, mirror: string | undefined): SetupStep {
  return {
    title: "the tools that fetch images",
    done: () => chooseImage(cacheFolder, FETCH_IMAGE),
    make: (progress) =>
      makeImage(cacheFolder, FETCH_IMAGE, async (folder) => {
        const packages = `${folder}.packages`;
        await rm(packages, { recursive: true, force: true });
        try {
          await extractPackages(packages, PACKAGES, mirror, progress);
          await fill(folder, packages);
        } finally {
          await rm(packages, { recursive: true, force: true });
        }
        shiftOwners(folder);
      }),
  };
}

async function fill(root: string, packages: string): Promise<void> {
  const { triplet, loader } = architecture();
  const libraries = join("usr/lib", triplet);
  for (const path of ["usr/bin", libraries, "etc/containers", "etc/ssl/certs", "fetch", "var/tmp", "root"]) {
    await mkdir(join(root, path), { recursive: true });
  }
  const needed = new Set<string>();
  for (const program of PROGRAMS) {
    await copyFile(join(packages, program), join(root, program));
    await chmod(join(root, program), 0o755);
    for (const name of await librariesOf(packages, libraries, loader, program)) needed.add(name);
  }
  for (const name of needed) await copyFile(join(packages, libraries, name), join(root, libraries, name));
  // Where programs look for their loader.
  await mkdir(join(root, dirname(loaderPlace(loader))), { recursive: true });
  await copyFile(join(packages, libraries, loader), join(root, loaderPlace(loader)));
  await chmod(join(root, loaderPlace(loader)), 0o755);
  const authorities = readdirSync(join(packages, AUTHORITIES)).sort();
  const bundle = authorities.map((name) => readFileSync(join(packages, AUTHORITIES, name), "utf8")).join("");
  const files: Record<string, string> = {
    "etc/ssl/certs/ca-certificates.crt": bundle,
    "etc/ld.so.conf": `/${libraries}\n`,
    "etc/containers/policy.json": POLICY,
    "etc/passwd": "root:x:0:0:root:/root:/sbin/nologin\n",
    "etc/group": "root:x:0:\n",
    "etc/hosts": "127.0.0.1 localhost\n",
    "etc/resolv.conf": `nameserver ${NAMESERVER_ADDRESS}\n`,
    "etc/nsswitch.conf": "hosts: files dns\n",
  };
  for (const [path, text] of Object.entries(files)) await writeFile(join(root, path), text);
}

function loaderPlace(loader: string): string {
  return process.arch === "x64" ? `lib64/${loader}` : `lib/${loader}`;
}

/** Names of the libraries that a program of these packages is linked to. */
async function librariesOf(packages: string, folder: string, loader: string, program: string): Promise<string[]> {
  const path = join(packages, folder);
  const output = await run([join(path, loader), "--library-path", path, "--list", join(packages, program)]);
  const found = [...output.matchAll(/=> (\S+)/g)].map(([, file]) => basename(file ?? ""));
  return found.filter((name) => existsSync(join(path, name)));
}
