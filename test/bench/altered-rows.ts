/** A later snapshot of a dataset of parcels: the same rows, of which one in so many has another owner. */

import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import type { WrittenFile } from '../../fixtures/source/content.ts';
import { factsOf } from './repeated-rows.ts';

/** With the paths from `folder`. The altered rows are spread over the whole table. */
export async function writeAltered(
  files: readonly WrittenFile[],
  oneIn: number,
  folder: string,
): Promise<readonly WrittenFile[]> {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  const written: WrittenFile[] = [];
  for (const [number, file] of files.entries()) {
    const path = `part-${number}.parquet`;
    await connection.run(`COPY (SELECT * REPLACE (
        CASE WHEN hash(parcel_id) % ${oneIn} = 0 THEN coalesce(owner_name, '') || ' et al.' ELSE owner_name END AS owner_name)
      FROM read_parquet('${file.path}')) TO '${join(folder, path)}' (FORMAT parquet)`);
    written.push({ path, rowCount: file.rowCount, ...(await factsOf(join(folder, path))) });
  }
  connection.closeSync();
  instance.closeSync();
  return written;
}
