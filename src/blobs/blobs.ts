/**
 * Blobs: bytes by name. Whoever puts one hands over a stream and is told when it is durable; until then nobody sees
 * anything of it. This room knows nothing of what the bytes are or whose they are. They lie in a folder of this
 * machine; an object store that several machines share can take its place.
 */
export interface Blobs {
  /**
   * Keeps what the stream carries under this name, in place of what was there. Resolves with its size once it is
   * durable. When the stream breaks off, fails or carries more than `maxBytes`, there is nothing new under the name,
   * and no more is read of it. Fault 413 when it is too large, 507 when the disk is full.
   */
  put(name: string, content: ReadableStream<Uint8Array>, maxBytes: number): Promise<number>;

  /** Undefined when there is none. */
  find(name: string): Promise<StoredBlob | undefined>;

  /** Notes that the blob is of use just now. False: there is none. */
  touch(name: string): Promise<boolean>;

  /** All of it, also when it is removed or replaced meanwhile. Fault 404 if there is none. */
  open(name: string): Promise<ReadableStream<Uint8Array>>;

  /** Idempotent; an unknown name is success. */
  remove(name: string): Promise<void>;

  /** Every blob whose name begins with this folder, such as `files/`; all for an empty text. */
  list(folder: string): Promise<StoredBlob[]>;
}

export interface StoredBlob {
  name: string;
  bytes: number;
  /** When it was put or touched, in milliseconds since 1970. */
  usedAt: number;
}
