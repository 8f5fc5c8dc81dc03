/**
 * Snapshots of more parcels than the generator writes in a minute: DuckDB writes the rows of generated files again and
 * again, each time under further keys, as GeoParquet. The keys are those that the generator would have given.
 */

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import type { WrittenFile } from '../../fixtures/source/content.ts';

export interface Repetition {
  /** The generated files, in order, and their rows together. */
  readonly seeds: readonly WrittenFile[];
  readonly seedRows: number;
  /** Of the whole snapshot. */
  readonly rowCount: number;
  readonly fileCount: number;
  readonly folder: string;
}

/** With the paths from `folder`. */
export async function writeRepeated(repetition: Repetition): Promise<readonly WrittenFile[]> {
  const { rowCount, fileCount, folder } = repetition;
  const rowsPerFile = Math.ceil(rowCount / fileCount);
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  try {
    const files: WrittenFile[] = [];
    for (let first = 0; first < rowCount; first += rowsPerFile) {
      const end = Math.min(rowCount, first + rowsPerFile);
      const path = `part-${files.length}.parquet`;
      await writeFile(connection, repetition, { first, end }, join(folder, path));
      files.push({ path, rowCount: end - first, ...(await factsOf(join(folder, path))) });
    }
    return files;
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

interface Rows {
  readonly first: number;
  /** The first that is not among them. */
  readonly end: number;
}

async function writeFile(
  connection: DuckDBConnection,
  { seeds, seedRows }: Repetition,
  { first, end }: Rows,
  path: string,
): Promise<void> {
  const paths = seeds.map((seed) => `'${seed.path}'`).join(', ');
  const parts: string[] = [];
  for (let pass = Math.floor(first / seedRows); pass * seedRows < end; pass += 1) {
    parts.push(rowsOfPass(paths, pass * seedRows, { first, end }));
  }
  await connection.run(`COPY (${parts.join(' UNION ALL ')}) TO '${path}' (FORMAT parquet)`);
}

/** `offset`: by how much the numbers of the rows are higher than in the seed. */
function rowsOfPass(paths: string, offset: number, { first, end }: Rows): string {
  const seedNumber = `replace(parcel_id, '-', '')::INTEGER`;
  const number = `(${seedNumber} + ${offset})`;
  const digits = `printf('%09d', ${number})`;
  return `SELECT * REPLACE (
      substr(${digits}, 1, 3) || '-' || substr(${digits}, 4, 3) || '-' || substr(${digits}, 7) AS parcel_id,
      regexp_replace(_feed_row_id, '[0-9]+$', '') || ${number} AS _feed_row_id)
    FROM read_parquet([${paths}]) WHERE ${number} >= ${first} AND ${number} < ${end}`;
}

export async function factsOf(path: string): Promise<{ readonly bytes: number; readonly sha256: string }> {
  const hash = createHash('sha256');
  for await (const part of createReadStream(path)) hash.update(part);
  return { bytes: (await stat(path)).size, sha256: hash.digest('hex') };
}
