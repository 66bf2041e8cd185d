/**
 * What is in a volume, for who has no sandbox at hand: the second interface of the host besides `host.ts`, since the
 * bytes of files do not pass through JSON. Paths are as seen from the volume: "/" is its root, and nothing outside of
 * it can be named, whatever links and folders are changed meanwhile by sandboxes that have it mounted.
 *
 * Errors are Faults that name the path: 404 when there is no such entry or volume, 409 when there is one already, 400
 * when it is of another kind than asked for, 507 when the volume is full, 503 when there is too much to do.
 */
export interface VolumeContent {
  /** Of a link itself, not of what it leads to. */
  stat(volume: string, path: string): Promise<VolumeEntry>;

  /** What is in a folder, and in its folders down to `depth`. Links are not followed. Fault 400 when it is too much. */
  list(volume: string, path: string, depth: number): Promise<VolumeEntry[]>;

  /** `force`: with its parents, and it may be there already. */
  makeFolder(volume: string, path: string, options: EntryOptions): Promise<VolumeEntry>;

  change(volume: string, path: string, changes: EntryAttributes): Promise<VolumeEntry>;

  /** A folder with all that is in it. */
  remove(volume: string, path: string): Promise<void>;

  /** Its bytes as of this moment; the stream breaks off when it becomes shorter meanwhile. */
  read(volume: string, path: string): Promise<{ bytes: number; content: ReadableStream<Uint8Array> }>;

  /** The file is there when all of it has arrived. `force`: with its parents, and in the place of one that is there. */
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
  /** Where a symlink leads. */
  target?: string;
}
