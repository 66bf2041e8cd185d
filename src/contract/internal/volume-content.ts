/**
 * Access to the content of a volume without a sandbox: the second interface of the host besides `host.ts`, since the
 * bytes of files do not pass through JSON. Paths are relative to the volume: "/" is its root, and nothing outside can
 * be named, whatever links and folders sandboxes change meanwhile.
 *
 * Errors are Faults that name the path: 404 for a missing entry or volume, 409 for an existing entry, 400 for an entry
 * of another kind, 507 when the volume is full, 503 when the host is busy.
 */
export interface VolumeContent {
  /** The entry of a link itself, not of its target. */
  stat(volume: string, path: string): Promise<VolumeEntry>;

  /**
   * The entries of a folder and its folders down to `depth`. Links are not followed. Fault 400 when there are too many.
   */
  list(volume: string, path: string, depth: number): Promise<VolumeEntry[]>;

  /** `force`: creates missing parents, and the folder may exist. */
  makeFolder(volume: string, path: string, options: EntryOptions): Promise<VolumeEntry>;

  change(volume: string, path: string, changes: EntryAttributes): Promise<VolumeEntry>;

  /** Removes an entry; a folder with its content. */
  remove(volume: string, path: string): Promise<void>;

  /** The current bytes of a file. The stream fails if the file becomes shorter meanwhile. */
  read(volume: string, path: string): Promise<{ bytes: number; content: ReadableStream<Uint8Array> }>;

  /** The file appears when all of it has arrived. `force`: creates missing parents, and replaces an existing file. */
  write(
    volume: string,
    path: string,
    options: EntryOptions,
    content: ReadableStream<Uint8Array> | null,
  ): Promise<VolumeEntry>;
}

export interface EntryAttributes {
  uid?: number;
  gid?: number;
  /** Permission bits. */
  mode?: number;
}

export interface EntryOptions extends EntryAttributes {
  force: boolean;
}

export interface VolumeEntry {
  name: string;
  type: "unknown" | "file" | "directory" | "symlink";
  path: string;
  size: number;
  mode: number;
  uid: number;
  gid: number;
  atime: string;
  mtime: string;
  ctime: string;
  /** Target of a symlink. */
  target?: string;
}
