/** Parquet files that DuckDB gives up on: an INTERNAL error, after which the instance answers nothing more. */

import { readFile, writeFile } from 'node:fs/promises';
import { duckdb, parquet } from './duckdb-mirror.ts';

/** A file with a `VARIANT` whose parts have other names: its footer is sound, its rows cannot be read. */
export async function poisonedFile(folder: string, name: string, id = '1::BIGINT'): Promise<string> {
  const path = await parquet(folder, name, `SELECT ${id} AS id, 2::VARIANT AS amount`);
  const content = await readFile(path, 'latin1');
  await writeFile(path, content.replaceAll('metadata', 'metadatb'), 'latin1');
  const error = await duckdb(`FROM read_parquet('${path}')`).catch((thrown: unknown) => thrown);
  if (!String(error).includes('INTERNAL Error')) throw new Error(`DuckDB reads ${name}: ${String(error)}`);
  return path;
}
