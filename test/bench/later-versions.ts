/** The versions that come after the first, in cases of catching up: so many changed rows each, spread over the whole table. */

import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { finished } from 'node:stream/promises';
import type { Change, Content, Row } from '../../fixtures/source/content.ts';
import type { GeneratedDataset } from '../../fixtures/source/generate.ts';
import type { GeneratedContent } from '../../fixtures/source/generated-content.ts';
import { rowToJsonText } from '../../fixtures/source/wire.ts';

export interface Backlog {
  readonly versions: number;
  readonly changedRows: number;
}

/** Coprime to any count of rows that ends in zeros, so that the rows of a version lie far from each other. */
const STRIDE = 7_919;

/** From version 2 on. Only their changes can be served, not their snapshots. */
export function laterVersions(dataset: GeneratedDataset, backlog: Backlog): readonly Content[] {
  const { table, schema, rowCount } = dataset.initial() as GeneratedContent;
  const revisions = new Map<number, number>();
  const rowAfterChange = (drawn: number): Row => {
    const index = (drawn * STRIDE) % rowCount;
    const revision = (revisions.get(index) ?? 1) + 1;
    revisions.set(index, revision);
    return table.rowAt(index, revision);
  };
  return Array.from({ length: backlog.versions }, (_, version) => ({
    schema,
    rowCount,
    rows: () => {
      throw new Error('The snapshot of a later version is not served.');
    },
    changes: Array.from(
      { length: backlog.changedRows },
      (_change, number): Change => ({
        op: 'changed',
        row: rowAfterChange(version * backlog.changedRows + number),
      }),
    ),
  }));
}

/** What all of them change, a row a line, as JSON like that of the feed. */
export async function writeNetChange(versions: readonly Content[], path: string): Promise<void> {
  const [first] = versions;
  if (first === undefined) throw new Error('there are no later versions');
  const { schema } = first;
  const keyPositions = schema.keyColumns.map((key) => schema.columns.findIndex(({ name }) => name === key));
  const latest = new Map<string, Row>();
  for (const { changes } of versions) {
    for (const change of changes ?? []) {
      if (change.op === 'removed') throw new Error('nothing is removed here');
      latest.set(keyPositions.map((position) => String(change.row[position])).join('\n'), change.row);
    }
  }
  const file = createWriteStream(path);
  for (const row of latest.values()) {
    if (!file.write(`${rowToJsonText(schema, row)}\n`)) {
      await once(file, 'drain');
    }
  }
  file.end();
  await finished(file);
}
