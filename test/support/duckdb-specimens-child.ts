/**
 * Loads the specimens, written by a library that is not DuckDB, in a process whose zone the caller chooses, and prints
 * as JSON the values that the mirror has of them and those that the reader shows.
 */

import { join } from 'node:path';
import { initialContent } from '../../fixtures/source/generated-content.ts';
import { writeSnapshot } from '../../fixtures/source/snapshot.ts';
import { specimens } from '../../fixtures/source/specimens.ts';
import { column, load, mirrorIn, readerOf, snapshot } from './duckdb-mirror.ts';

const folder = process.argv[2] ?? '';
const content = initialContent(specimens(1));
const path = join(folder, 'specimens.parquet');
await writeSnapshot({ schema: content.schema, rows: content.rows(), path });
const mirror = await mirrorIn(folder);
const columns = content.schema.columns.map(({ name, type }) => column(name, type));
const { keyColumns } = content.schema;
const [outcome] = await load(
  mirror,
  snapshot({ datasetId: 'specimens', columns, keyColumns, files: [path] }),
);
if (outcome?.kind !== 'committed')
  throw outcome?.kind === 'failed' ? outcome.error : new Error('not committed');
await mirror.close();

const reader = await readerOf(join(folder, 'mirror.duckdb'));
const result = await reader?.query('SELECT * FROM specimens ORDER BY specimen');
for await (const row of result?.rows ?? []) process.stdout.write(`${JSON.stringify(row)}\n`);
await reader?.close();
