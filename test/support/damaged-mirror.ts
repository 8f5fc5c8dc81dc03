/** Damages a mirror as a disk does: a byte of one block is another. */

import { closeSync, openSync, readFileSync, readSync, writeFileSync, writeSync } from 'node:fs';
import { literal, openExactly } from './exact-mirror.ts';

/** Changes a byte of the block with the text. @throws Error where no block contains it as it is. */
export function damageBlock(path: string, text: string): void {
  const at = readFileSync(path).indexOf(text);
  if (at < 0) throw new Error(`${text} is not in the file`);
  flipBit(path, at);
}

/** Where the first block of a DuckDB file begins, and the length of a block. */
const FIRST_BLOCK_AT = 3 * 4_096;
const BLOCK_BYTES = 262_144;
const CHECKSUM_BYTES = 8;
/** Within the values of a block, whose first eight bytes are its checksum. */
const IN_BLOCK = 1_000;

/** Flips a bit in a block that no other table has values in. `table`: with its schema. @throws Error where there is none. */
export async function damageTable(path: string, table: string): Promise<void> {
  flipBit(path, placeOf(ownBlock(await blocksOf(path), table)) + IN_BLOCK);
}

/**
 * Writes a block of a table over one of another table: it is whole, and has other values. `table`, `over`: with their schemas.
 * @throws Error where there is none.
 */
export async function misplaceBlock(path: string, table: string, over: string): Promise<void> {
  const blocks = await blocksOf(path);
  const file = openSync(path, 'r+');
  const block = Buffer.alloc(BLOCK_BYTES);
  readSync(file, block, 0, BLOCK_BYTES, placeOf(ownBlock(blocks, table)));
  writeSync(file, block, 0, BLOCK_BYTES, placeOf(ownBlock(blocks, over)));
  closeSync(file);
}

/**
 * Writes a byte that UTF-8 never has over the last one of the text, wherever the file has it, and the checksums of those blocks anew:
 * they are whole, and contain text that is not valid UTF-8. @throws Error where no block contains the text as it is.
 */
export function writeInvalidText(path: string, text: string): void {
  const bytes = readFileSync(path);
  const blocks = new Set<number>();
  for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + 1)) {
    bytes[at + text.length - 1] = 0xff;
    blocks.add(Math.floor((at - FIRST_BLOCK_AT) / BLOCK_BYTES));
  }
  if (blocks.size === 0) throw new Error(`${text} is not in the file`);
  for (const block of blocks) writeChecksum(bytes, placeOf(block));
  writeFileSync(path, bytes);
}

const LENGTH_BYTES = 4;

/**
 * Writes another length before a text that is too long for the block of its column, and the checksum of its block anew. @throws Error where
 * no block has the text with its length.
 */
export function writeLength(path: string, text: string, length: number): void {
  const bytes = readFileSync(path);
  const at = bytes.indexOf(text) - LENGTH_BYTES;
  if (at < 0 || bytes.readUInt32LE(at) !== text.length) throw new Error('the text has no length in the file');
  bytes.writeUInt32LE(length, at);
  writeChecksum(bytes, placeOf(Math.floor((at - FIRST_BLOCK_AT) / BLOCK_BYTES)));
  writeFileSync(path, bytes);
}

/** The file has no place of a block with this number: its offset exceeds what a system can be asked for. */
const IMPOSSIBLE_BLOCK = 2n ** 45n;

/**
 * Writes where the first block of a text names the one that follows: an impossible number, or its own. The checksum of that block is
 * written anew. @throws Error where no block has the beginning of the text.
 */
export function writeNextBlock(path: string, text: string, next: 'impossible' | 'itself'): void {
  const bytes = readFileSync(path);
  const found = bytes.indexOf(text.slice(0, IN_BLOCK));
  if (found < 0) throw new Error('no block has the beginning of the text');
  const block = Math.floor((found - FIRST_BLOCK_AT) / BLOCK_BYTES);
  const number = next === 'itself' ? BigInt(block) : IMPOSSIBLE_BLOCK;
  bytes.writeBigInt64LE(number, placeOf(block + 1) - CHECKSUM_BYTES);
  writeChecksum(bytes, placeOf(block));
  writeFileSync(path, bytes);
}

/** DuckDB combines the words of eight bytes that follow the checksum. */
function writeChecksum(bytes: Buffer, at: number): void {
  let checksum = 5_381n;
  for (let word = at + CHECKSUM_BYTES; word < at + BLOCK_BYTES; word += CHECKSUM_BYTES) {
    checksum ^= BigInt.asUintN(64, bytes.readBigUInt64LE(word) * 0xbf58476d1ce4e5b9n);
  }
  bytes.writeBigUInt64LE(checksum, at);
}

function placeOf(block: number): number {
  return FIRST_BLOCK_AT + block * BLOCK_BYTES;
}

function ownBlock(blocks: ReadonlyMap<string, readonly number[]>, table: string): number {
  const others = new Set([...blocks].flatMap(([name, own]) => (name === table ? [] : own)));
  const block = blocks.get(table)?.find((one) => !others.has(one));
  if (block === undefined) throw new Error(`no block is only of ${table}: ${JSON.stringify([...blocks])}`);
  return block;
}

/** The blocks with values, by table. */
async function blocksOf(path: string): Promise<ReadonlyMap<string, readonly number[]>> {
  const mirror = await openExactly(path);
  try {
    const tables = await mirror.rows(`SELECT schema_name || '.' || table_name FROM duckdb_tables()`);
    const blocks = new Map<string, readonly number[]>();
    for (const [table = null] of tables) {
      if (table === null) continue;
      const rows = await mirror.rows(
        `SELECT DISTINCT block_id::VARCHAR FROM pragma_storage_info(${literal(table)}) WHERE block_id >= 0`,
      );
      blocks.set(
        table,
        rows.map(([block]) => Number(block)),
      );
    }
    return blocks;
  } finally {
    mirror.close();
  }
}

function flipBit(path: string, at: number): void {
  const file = openSync(path, 'r+');
  const byte = Buffer.alloc(1);
  readSync(file, byte, 0, 1, at);
  writeSync(file, Buffer.from([(byte[0] ?? 0) ^ 4]), 0, 1, at);
  closeSync(file);
}
