/** Reads screenshots: PNG with 8 bits per colour. */
import { inflateSync } from "node:zlib";

const SIGNATURE = "89504e470d0a1a0a";
/** Of the colour types: RGB, and RGB with opacity. */
const CHANNELS: Readonly<Record<number, number>> = { 2: 3, 6: 4 };

export interface Picture {
  width: number;
  height: number;
  /** As "#rrggbb". */
  at(x: number, y: number): string;
  /** How many points have this colour. */
  count(colour: string): number;
}

export function readPicture(png: Uint8Array): Picture {
  const file = Buffer.from(png.buffer, png.byteOffset, png.byteLength);
  if (file.subarray(0, 8).toString("hex") !== SIGNATURE) throw new Error("this is no PNG");
  const parts = [...partsOf(file)];
  const header = parts.find(({ name }) => name === "IHDR")?.body;
  if (header === undefined) throw new Error("a PNG without a header");
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)];
  const channels = CHANNELS[header.readUInt8(9)];
  if (header.readUInt8(8) !== 8 || channels === undefined || header.readUInt8(12) !== 0) {
    throw new Error(`a PNG of another kind: ${header.toString("hex")}`);
  }
  const packed = Buffer.concat(parts.filter(({ name }) => name === "IDAT").map(({ body }) => body));
  const points = withoutFilters(inflateSync(packed), { width, height, channels });
  const at = (x: number, y: number) => {
    const from = (y * width + x) * channels;
    return `#${points.subarray(from, from + 3).toString("hex")}`;
  };
  const count = (colour: string) => {
    let found = 0;
    const wanted = Number.parseInt(colour.slice(1), 16);
    for (let from = 0; from < points.length; from += channels) {
      if (points.readUIntBE(from, 3) === wanted) found++;
    }
    return found;
  };
  return { width, height, at, count };
}

function* partsOf(file: Buffer): Generator<{ name: string; body: Buffer }> {
  for (let from = 8; from < file.length; ) {
    const length = file.readUInt32BE(from);
    yield {
      name: file.toString("latin1", from + 4, from + 8),
      body: file.subarray(from + 8, from + 8 + length),
    };
    from += length + 12;
  }
}

/** Each line is stored as the difference to the pixel to the left, the one above, or both. */
function withoutFilters(lines: Buffer, size: { width: number; height: number; channels: number }): Buffer {
  const { width, height, channels } = size;
  const stride = width * channels;
  const points = Buffer.alloc(stride * height);
  for (let y = 0; y < height; y++) {
    const filter = lines.readUInt8(y * (stride + 1));
    for (let x = 0; x < stride; x++) {
      const at = y * stride + x;
      const left = x < channels ? 0 : (points[at - channels] ?? 0);
      const above = y === 0 ? 0 : (points[at - stride] ?? 0);
      const corner = x < channels || y === 0 ? 0 : (points[at - stride - channels] ?? 0);
      const guess = guessOf(filter, left, above, corner);
      points[at] = (lines[at + y + 1] ?? 0) + guess;
    }
  }
  return points;
}

function guessOf(filter: number, left: number, above: number, corner: number): number {
  switch (filter) {
    case 0:
      return 0;
    case 1:
      return left;
    case 2:
      return above;
    case 3:
      return (left + above) >> 1;
    case 4:
      return nearest(left, above, corner);
    default:
      throw new Error(`a PNG with filter ${filter}`);
  }
}

/** Paeth's: whichever of the three is nearest to left + above - corner. */
function nearest(left: number, above: number, corner: number): number {
  const toLeft = Math.abs(above - corner);
  const toAbove = Math.abs(left - corner);
  const toCorner = Math.abs(left + above - 2 * corner);
  if (toLeft <= toAbove && toLeft <= toCorner) return left;
  return toAbove <= toCorner ? above : corner;
}
