/**
 * Parquet files made by hand, because no writer makes them: few bytes that say of themselves, or become once they are read,
 * whatever a test needs. One column of texts, `name`, in one row group, as a dictionary and one run of its first entry.
 */

import { writeFileSync } from 'node:fs';
import { zstdCompressSync } from 'node:zlib';

export interface Forgery {
  /** The value of every row. */
  readonly value?: string;
  /** The rows that are there. */
  readonly rows: number;
  /** The rows that the footer states, for the file and for its row group; those that are there by default. */
  readonly statedRows?: { readonly file?: number; readonly group?: number };
  /** The bytes that the pages state for what they are before compression; the truth by default. */
  readonly statedPageBytes?: { readonly dictionary?: number; readonly data?: number };
  /** What the footer states for the whole column before compression. */
  readonly statedColumnBytes?: number;
}

const MARK = Buffer.from('PAR1');
const CODEC_ZSTD = 6;
const TYPE_BYTES = 6;
const PLAIN = 0;
const RLE = 3;
const RLE_DICTIONARY = 8;

export function forgeParquet(path: string, forgery: Forgery): void {
  const { value = 'x', rows, statedRows = {}, statedPageBytes = {} } = forgery;
  const entry = Buffer.from(value);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(entry.length);
  const dictionary = page(2, Buffer.concat([length, entry]), statedPageBytes.dictionary, [
    7,
    struct([1, int(1)], [2, int(PLAIN)]),
  ]);
  // One bit for an index into the dictionary; one run of zeros.
  const run = Buffer.concat([Buffer.from([1]), variable(BigInt(rows) << 1n), Buffer.from([0])]);
  const data = page(0, run, statedPageBytes.data, [
    5,
    struct([1, int(rows)], [2, int(RLE_DICTIONARY)], [3, int(RLE)], [4, int(RLE)]),
  ]);
  const packedBytes = dictionary.length + data.length;
  const groupRows = statedRows.group ?? rows;
  const columnData = struct(
    [1, int(TYPE_BYTES)],
    [2, list(int(PLAIN), int(RLE_DICTIONARY))],
    [3, list(bytes('name'))],
    [4, int(CODEC_ZSTD)],
    [5, long(groupRows)],
    [6, long(forgery.statedColumnBytes ?? entry.length + run.length)],
    [7, long(packedBytes)],
    [9, long(MARK.length + dictionary.length)],
    [11, long(MARK.length)],
  );
  const group = struct(
    [1, list(struct([2, long(MARK.length)], [3, columnData]))],
    [2, long(packedBytes)],
    [3, long(groupRows)],
  );
  const root = struct([4, bytes('root')], [5, int(1)]);
  const name = struct([1, int(TYPE_BYTES)], [3, int(0)], [4, bytes('name')], [6, int(0)]);
  const footer = struct(
    [1, int(1)],
    [2, list(root, name)],
    [3, long(statedRows.file ?? rows)],
    [4, list(group)],
  ).content;
  const footerLength = Buffer.alloc(4);
  footerLength.writeUInt32LE(footer.length);
  writeFileSync(path, Buffer.concat([MARK, dictionary, data, footer, footerLength, MARK]));
}

function page(type: number, content: Buffer, statedBytes: number | undefined, of: Field): Buffer {
  const packed = zstdCompressSync(content);
  const header = struct([1, int(type)], [2, int(statedBytes ?? content.length)], [3, int(packed.length)], of);
  return Buffer.concat([header.content, packed]);
}

/** A value as Thrift's compact protocol writes it. */
interface Value {
  readonly type: number;
  readonly content: Buffer;
}
type Field = readonly [id: number, value: Value];

function variable(number: bigint): Buffer {
  const written: number[] = [];
  let rest = number;
  for (; rest > 127n; rest >>= 7n) written.push(Number(rest & 127n) | 128);
  return Buffer.from([...written, Number(rest)]);
}

const int = (number: number): Value => ({ type: 5, content: variable(BigInt(number) << 1n) });
const long = (number: number): Value => ({ type: 6, content: variable(BigInt(number) << 1n) });

function bytes(text: string): Value {
  const content = Buffer.from(text);
  return { type: 8, content: Buffer.concat([variable(BigInt(content.length)), content]) };
}

function list(...values: readonly Value[]): Value {
  const head = Buffer.from([(values.length << 4) | (values[0]?.type ?? 0)]);
  return { type: 9, content: Buffer.concat([head, ...values.map(({ content }) => content)]) };
}

function struct(...fields: readonly Field[]): Value {
  let before = 0;
  const written = fields.flatMap(([id, { type, content }]) => {
    const head = Buffer.from([((id - before) << 4) | type]);
    before = id;
    return [head, content];
  });
  return { type: 12, content: Buffer.concat([...written, Buffer.from([0])]) };
}
