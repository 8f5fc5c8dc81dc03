/** The content of a table as a digest that a reader of the mirror and the publisher come to by different ways. */

import { createHash } from 'node:crypto';
import type { ColumnType, Content } from '../../fixtures/source/content.ts';
import { columnsOf } from '../../fixtures/source/wire.ts';
import { textOfCell, textOfMirrored } from './cell-text.ts';
import { type ExactMirror, exactText, identifier, literal } from './exact-mirror.ts';

type TextRow = readonly (string | null)[];

/** What a reader sees of one dataset. */
export interface Seen {
  readonly version: number;
  readonly digest: string;
}

/** Of what was published: the names of the columns and every row, whatever the order of the rows. */
export function digestOfContent(content: Content): string {
  const columns = columnsOf(content.schema);
  const rows = Array.from(content.rows(), (row) =>
    columns.map(({ type }, index) => textOfCell(type, row[index] ?? null)),
  );
  return digestOf(
    columns.map(({ name }) => name),
    rows,
  );
}

/** Of every table that the mirror says it has, but for `missing`, by dataset id. @throws Error where one of them is not there. */
export async function seenIn(
  mirror: ExactMirror,
  missing: readonly string[] = [],
): Promise<Readonly<Record<string, Seen>>> {
  const seen: Record<string, Seen> = {};
  const datasets = await mirror.rows(
    'SELECT dataset_id, table_name, version::VARCHAR FROM feed_sync.datasets',
  );
  for (const [datasetId, tableName, version] of datasets) {
    if (missing.includes(datasetId ?? '')) continue;
    seen[datasetId ?? ''] = {
      version: Number(version),
      digest: await digestOfTable(mirror, datasetId ?? '', tableName ?? ''),
    };
  }
  return seen;
}

async function digestOfTable(mirror: ExactMirror, datasetId: string, tableName: string): Promise<string> {
  const columns = await mirror.rows(
    `SELECT name, type FROM feed_sync.columns WHERE dataset_id = ${literal(datasetId)} ORDER BY "position"`,
  );
  const types = columns.map(([, type]) => type as ColumnType);
  const names = columns.map(([name]) => name ?? '');
  const values = names.map(
    (name, index) => `${exactText(types[index] ?? 'string', identifier(name))} AS c${index}`,
  );
  const rows = await mirror.rows(`SELECT ${values.join(', ')} FROM main.${identifier(tableName)}`);
  return digestOf(
    names,
    rows.map((row) => row.map((text, index) => textOfMirrored(types[index] ?? 'string', text))),
  );
}

function digestOf(names: readonly string[], rows: readonly TextRow[]): string {
  const lines = rows.map((row) => JSON.stringify(row)).sort();
  return createHash('sha256')
    .update([JSON.stringify(names), ...lines].join('\n'))
    .digest('hex');
}
