/**
 * A reader of well-known binary that has nothing in common with the program: what it cannot read in full, to the last
 * byte, it does not take.
 */

/** The same geometry in ISO, little endian, in hexadecimal digits; null where the bytes are no geometry. */
export function canonicalWkb(bytes: Buffer): string | null {
  const reader = new WkbReader(bytes);
  try {
    const geometry = reader.geometry(null);
    return reader.isAtEnd ? Buffer.concat(geometry).toString('hex').toUpperCase() : null;
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

const POINT = 1;
const LINE = 2;
const POLYGON = 3;
const COLLECTION = 7;
/** What the parts of a geometry of several are; a collection takes any. */
const PARTS: Readonly<Record<number, number>> = { 4: POINT, 5: LINE, 6: POLYGON };
const HEIGHT = 0x8000_0000;
const MEASURE = 0x4000_0000;
const SRID = 0x2000_0000;

interface Type {
  readonly kind: number;
  /** 0, 1 (height), 2 (measure) or 3 (both), as in ISO. */
  readonly dimensions: number;
}

class WkbReader {
  readonly #bytes: Buffer;
  #at = 0;
  #isLittle = true;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  /** The bytes of the geometry as it is written anew. `holder` is what it is a part of. @throws RangeError */
  geometry(holder: Type | null): readonly Buffer[] {
    const order = this.#bytes.readUInt8(this.#at);
    this.#at += 1;
    if (order > 1) throw new RangeError('no order of bytes');
    this.#isLittle = order === 1;
    const type = this.#type(holder);
    const head = Buffer.alloc(5);
    head[0] = 1;
    head.writeUInt32LE(type.kind + 1_000 * type.dimensions, 1);
    return [head, ...this.#body(type)];
  }

  #type(holder: Type | null): Type {
    const word = this.#word();
    const code = (word & ~(HEIGHT | MEASURE | SRID)) >>> 0;
    const ofFlags = ((word & HEIGHT) === 0 ? 0 : 1) + ((word & MEASURE) === 0 ? 0 : 2);
    if ((word & SRID) !== 0) {
      if (holder !== null) throw new RangeError('a part with a coordinate system');
      this.#word();
    }
    const kind = code % 1_000;
    const ofCode = Math.trunc(code / 1_000);
    if (kind < POINT || kind > COLLECTION || ofCode > 3) throw new RangeError('no type');
    const type = { kind, dimensions: ofFlags | ofCode };
    if (holder === null) return type;
    const part = PARTS[holder.kind];
    if (part !== undefined && part !== kind) throw new RangeError('a part of another type');
    if (type.dimensions !== holder.dimensions) throw new RangeError('a part of other dimensions');
    return type;
  }

  #body(type: Type): readonly Buffer[] {
    const { kind } = type;
    if (kind === POINT) return [this.#position(type)];
    const part = (): readonly Buffer[] => {
      if (kind === LINE) return [this.#position(type)];
      if (kind === POLYGON) return this.#list(() => [this.#position(type)]);
      const isLittle = this.#isLittle;
      const inside = this.geometry(type);
      this.#isLittle = isLittle;
      return inside;
    };
    return this.#list(part);
  }

  #list(part: () => readonly Buffer[]): readonly Buffer[] {
    const count = this.#word();
    const head = Buffer.alloc(4);
    head.writeUInt32LE(count);
    const parts: Buffer[] = [head];
    for (let index = 0; index < count; index += 1) parts.push(...part());
    return parts;
  }

  #position({ dimensions }: Type): Buffer {
    const numbers = 2 + (dimensions & 1) + (dimensions >> 1);
    const end = this.#at + 8 * numbers;
    if (end > this.#bytes.length) throw new RangeError('cut');
    const bytes = Buffer.from(this.#bytes.subarray(this.#at, end));
    this.#at = end;
    return this.#isLittle ? bytes : bytes.swap64();
  }

  #word(): number {
    const word = this.#isLittle ? this.#bytes.readUInt32LE(this.#at) : this.#bytes.readUInt32BE(this.#at);
    this.#at += 4;
    return word;
  }
}
