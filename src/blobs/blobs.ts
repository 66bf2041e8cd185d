/**
 * Blobs: bytes by name. `put` takes a stream and resolves when it is durable; until then the blob is invisible. This
 * module does not know what the bytes are or which team owns them. They are in a folder of this machine; an object
 * store shared by several machines can replace it.
 */
export interface Blobs {
  /**
   * Stores the stream under this name and replaces an existing blob. Resolves with its size once it is durable. When
   * the stream fails or exceeds `maxBytes`, the name is unchanged and the rest is not read. Fault 413 when it is too
   * large, 507 when the disk is full.
   */
  put(name: string, content: ReadableStream<Uint8Array>, maxBytes: number): Promise<number>;

  /** Undefined: it does not exist. */
  find(name: string): Promise<StoredBlob | undefined>;

  /** Records that the blob is in use. False: it does not exist. */
  touch(name: string): Promise<boolean>;

  /** The whole blob, even if it is removed or replaced meanwhile. Fault 404 if it does not exist. */
  open(name: string): Promise<ReadableStream<Uint8Array>>;

  /** Idempotent; an unknown name is success. */
  remove(name: string): Promise<void>;

  /** Removes every blob below this folder. Idempotent. */
  removeFolder(folder: string): Promise<void>;

  /** Every blob below this folder, such as `files/`; all for an empty text. */
  list(folder: string): Promise<StoredBlob[]>;
}

export interface StoredBlob {
  name: string;
  bytes: number;
  /** Time of the last put or touch, in milliseconds since 1970. */
  usedAt: number;
}
