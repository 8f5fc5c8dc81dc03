/** The comparison itself: every kind of difference between a mirror and what was published is seen. */

import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { describe, expect, it } from 'vitest';
import { countyFeed } from '../support/county-feed.ts';
import { mirrorDifferences } from '../support/mirror-comparison.ts';
import { program } from '../support/program.ts';
import { everythingPublished, tableNameOf } from '../support/published.ts';

/** One change of a mirror of specimens and parcels, and what it must be reported as. */
const CHANGES: readonly { readonly what: string; readonly sql: string; readonly seen: RegExp }[] = [
  {
    what: 'a byte order mark lost',
    sql: `UPDATE $s SET "__proto__" = substr("__proto__", 2) WHERE ord("__proto__") = 65279`,
    seen: /specimens: 1 × missing/,
  },
  {
    what: 'text cut at a blank',
    sql: `UPDATE $s SET "__proto__" = '' WHERE "__proto__" = ' '`,
    seen: /specimens: 1 × missing/,
  },
  {
    what: 'text that became null',
    sql: `UPDATE $s SET "__proto__" = NULL WHERE "__proto__" = ''`,
    seen: /specimens: 1 × missing/,
  },
  {
    what: 'an integer off by one beyond 2^53',
    sql: `UPDATE $s SET constructor = constructor - 1 WHERE constructor = 9223372036854775807`,
    seen: /specimens: 1 × missing/,
  },
  {
    what: 'a number off by its last bit',
    sql: `UPDATE $s SET "1" = 0.3::DOUBLE WHERE "1" = 0.1::DOUBLE + 0.2::DOUBLE`,
    seen: /specimens: 1 × missing/,
  },
  {
    what: 'a boolean',
    sql: `UPDATE $s SET "select" = NOT "select" WHERE specimen = 0`,
    seen: /only in the mirror/,
  },
  {
    what: 'a date off by a day',
    sql: `UPDATE $s SET "it's; --" = DATE '0001-01-02' WHERE "it's; --" = DATE '0001-01-01'`,
    seen: /specimens: 1 × missing/,
  },
  {
    what: 'a timestamp off by a microsecond',
    sql: `UPDATE $s SET "a,b.c\\d" = TIMESTAMPTZ '1969-12-31 23:59:59.999998+00' WHERE specimen = 1`,
    seen: /specimens: 1 × missing/,
  },
  {
    what: 'a geometry off by its last bit',
    sql: `UPDATE $s SET "géométrie 😀" = 'POINT (180 90.00000000000001)'::GEOMETRY WHERE ST_AsText("géométrie 😀") = 'POINT (180 90)'`,
    seen: /only in the mirror/,
  },
  {
    what: 'a geometry that is empty instead of null',
    sql: `UPDATE $s SET "géométrie 😀" = 'POINT EMPTY'::GEOMETRY WHERE "géométrie 😀" IS NULL`,
    seen: /only in the mirror/,
  },
  {
    what: 'JSON null instead of no value',
    sql: `UPDATE $s SET " json " = 'null' WHERE " json " IS NULL`,
    seen: /specimens: 1 × missing/,
  },
  {
    what: 'a JSON text instead of a number',
    sql: `UPDATE $s SET " json " = '"0"' WHERE " json "::VARCHAR = '0'`,
    seen: /only in the mirror/,
  },
  {
    what: 'a row that is not there',
    sql: `DELETE FROM $s WHERE specimen = 0`,
    seen: /specimens: 1 × missing/,
  },
  {
    what: 'a row that is there twice',
    sql: `INSERT INTO $s SELECT * FROM $s WHERE specimen = 0`,
    seen: /specimens: 1 × only in the mirror/,
  },
  {
    what: 'a column of another type',
    sql: `ALTER TABLE $s ALTER revision TYPE INTEGER`,
    seen: /columns:.*INTEGER/,
  },
  { what: 'a column of another name', sql: `ALTER TABLE $s RENAME "select" TO "SELECT"`, seen: /columns:/ },
  {
    what: 'a column that nobody published',
    sql: `ALTER TABLE $s ADD COLUMN stray INTEGER`,
    seen: /columns:.*stray/,
  },
  {
    what: 'the comment of a column',
    sql: `COMMENT ON COLUMN $s._feed_row_id IS 'another'`,
    seen: /columns:.*another/,
  },
  { what: 'the comment of a table', sql: `COMMENT ON TABLE $s IS NULL`, seen: /tables:/ },
  { what: 'a table that nobody published', sql: 'CREATE TABLE stray (i INTEGER)', seen: /tables:.*stray/ },
  { what: 'the version', sql: 'UPDATE feed_sync.datasets SET version = 2', seen: /feed_sync\.datasets/ },
  {
    what: 'the schema version',
    sql: 'UPDATE feed_sync.datasets SET schema_version = NULL',
    seen: /feed_sync\.datasets/,
  },
  {
    what: 'the row count',
    sql: 'UPDATE feed_sync.datasets SET row_count = row_count + 1',
    seen: /feed_sync\.datasets/,
  },
  {
    what: 'the key columns',
    sql: 'UPDATE feed_sync.datasets SET key_columns = []',
    seen: /feed_sync\.datasets/,
  },
  {
    what: 'when it was published',
    sql: 'UPDATE feed_sync.datasets SET published_at = published_at + INTERVAL 1 microsecond',
    seen: /feed_sync\.datasets/,
  },
  {
    what: 'the digest',
    sql: "UPDATE feed_sync.datasets SET snapshot_digest = ''",
    seen: /feed_sync\.datasets/,
  },
  {
    what: 'the role of a column',
    sql: "UPDATE feed_sync.columns SET role = 'data'",
    seen: /feed_sync\.columns/,
  },
  {
    what: 'a description',
    sql: "UPDATE feed_sync.columns SET description = '' WHERE description IS NULL",
    seen: /feed_sync\.columns/,
  },
  { what: 'the history', sql: 'DELETE FROM feed_sync.commits', seen: /history/ },
  { what: 'a history with a gap', sql: 'UPDATE feed_sync.commits SET from_version = 7', seen: /history/ },
  {
    what: 'a reload nobody asked for',
    sql: "INSERT INTO feed_sync.reloads VALUES ('nobody', 'sub_1', 1, 1, NULL)",
    seen: /reloads/,
  },
  {
    what: 'a name given twice',
    sql: "INSERT INTO feed_sync.names SELECT 'other', table_name FROM feed_sync.names",
    seen: /names given twice/,
  },
  {
    what: 'the origin',
    sql: `UPDATE feed_sync.meta SET value = 'https://other.example' WHERE "key" = 'service_origin'`,
    seen: /feed_sync\.meta/,
  },
];

describe('the comparison of a mirror with what was published', () => {
  it('the comparison finds no difference in a new mirror, and each kind of difference in an altered one', async () => {
    const { feed, datasetOf } = await countyFeed({ kinds: ['specimens', 'permits'] });
    const installed = await program({ feed });
    expect(await installed.run('once')).toMatchObject({ exitCode: 0 });
    const expected = everythingPublished(feed);
    expect(await mirrorDifferences(installed.mirrorPath, expected)).toEqual([]);

    const specimens = tableNameOf(datasetOf('specimens'));
    const changed = join(installed.home, 'changed.duckdb');
    for (const { what, sql, seen } of CHANGES) {
      cpSync(installed.mirrorPath, changed);
      await change(changed, sql.replaceAll('$s', `main.${specimens}`));
      expect((await mirrorDifferences(changed, expected)).join('\n'), what).toMatch(seen);
    }
  });
});

async function change(path: string, sql: string): Promise<void> {
  const instance = await DuckDBInstance.create(path, { threads: '1' });
  const connection = await instance.connect();
  await connection.run(sql);
  connection.closeSync();
  instance.closeSync();
}
