/** `feed-sync once` with two million polygons, compared with what the feed says of them. */

import { describe, expect, it } from 'vitest';
import { columnsOf } from '../../fixtures/source/wire.ts';
import { textOfCell, textOfMirrored } from '../support/cell-text.ts';
import { countyFeed } from '../support/county-feed.ts';
import { exactText, identifier, openExactly } from '../support/exact-mirror.ts';
import { once } from '../support/expect-mirrored.ts';
import { program } from '../support/program.ts';
import { tableNameOf } from '../support/published.ts';

const ROWS = 2_000_000;
/** Every so many rows one is compared in all columns. */
const STRIDE = 40_009;

describe('two million polygons', () => {
  it('once loads two million polygons, counts them, and samples of them equal the feed', async () => {
    const { feed, datasetOf, contentOf } = await countyFeed({ kinds: ['parcels'], rowsPerDataset: ROWS });
    const parcels = datasetOf('parcels');
    const { schema, rows } = contentOf(parcels);
    await feed.prepareSnapshots();
    const installed = await program({ feed });
    expect((await once(installed)).stdout).toContain('1 loaded, 0 already up to date. 2,000,000 rows');

    const mirror = await openExactly(installed.mirrorPath);
    const table = `main.${identifier(tableNameOf(parcels))}`;
    const columns = columnsOf(schema);
    const values = columns.map(
      ({ name, type }, index) => `${exactText(type, identifier(name))} AS c${index}`,
    );
    const key = identifier(schema.keyColumns[0] ?? '');
    expect(
      await mirror.rows(`SELECT count(*)::VARCHAR, count(DISTINCT ${key})::VARCHAR FROM ${table}`),
    ).toEqual([[String(ROWS), String(ROWS)]]);
    expect(await mirror.rows('SELECT row_count::VARCHAR FROM feed_sync.datasets')).toEqual([[String(ROWS)]]);

    const picked = everyNth(rows(), STRIDE);
    const keyAt = columns.findIndex(({ name }) => name === schema.keyColumns[0]);
    const expected = picked.map((row) =>
      columns.map(({ type }, index) => textOfCell(type, row[index] ?? null)),
    );
    const keys = expected.map((row) => `'${row[keyAt]}'`).join();
    const found = await mirror.rows(
      `SELECT ${values.join()} FROM ${table} WHERE ${key}::VARCHAR IN (${keys}) ORDER BY ${key}`,
    );
    const byKey = (left: readonly (string | null)[], right: readonly (string | null)[]): number =>
      (left[keyAt] ?? '') < (right[keyAt] ?? '') ? -1 : 1;
    expect(
      found
        .map((row) => row.map((text, index) => textOfMirrored(columns[index]?.type ?? 'string', text)))
        .toSorted(byKey),
    ).toEqual(expected.toSorted(byKey));
    mirror.close();
  });
});

function everyNth<Element>(elements: Iterable<Element>, stride: number): readonly Element[] {
  const picked: Element[] = [];
  let index = 0;
  for (const element of elements) {
    if (index % stride === 0) picked.push(element);
    index += 1;
  }
  return picked;
}
