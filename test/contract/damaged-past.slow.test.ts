/** F58: damage in what the service does not have: undo logs and archived tables. It is named once, closed, and delays nothing else. */

import { expect, it } from 'vitest';
import { countyFeed } from '../support/county-feed.ts';
import { damageTable } from '../support/damaged-mirror.ts';
import { openExactly } from '../support/exact-mirror.ts';
import { expectMirrored, once } from '../support/expect-mirrored.ts';
import { withHistoryAndCopy } from '../support/history-and-copy.ts';
import { mirrorDifferences } from '../support/mirror-comparison.ts';
import { writeMirror } from '../support/mirror-file.ts';
import { everythingPublished } from '../support/published.ts';

/** Three tables with history under a published copy: one with two versions, one that has left and is archived. */
async function withHistory() {
  const made = await countyFeed({ kinds: ['permits', 'parcels', 'zoning'] });
  const { installed, copy } = await withHistoryAndCopy(made);
  made.publishNext(made.datasetOf('permits'));
  made.publishNext(made.datasetOf('zoning'));
  await once(installed);
  made.feed.publisher.remove(made.datasetOf('zoning'), 'left_coverage');
  await once(installed);
  const permits = made.datasetOf('permits').replaceAll('-', '_');
  return { ...made, installed, copy, permits };
}

async function tablesIn(path: string, schema: string): Promise<readonly string[]> {
  const mirror = await openExactly(path);
  try {
    const rows = await mirror.rows(
      `SELECT table_name FROM duckdb_tables() WHERE schema_name = '${schema}' ORDER BY ALL`,
    );
    return rows.map(([name]) => String(name));
  } finally {
    mirror.close();
  }
}

it('F58 a reload that meets a damaged undo log closes it, reports it once, and the table is loaded', async () => {
  const { feed, installed, copy, permits, datasetOf, publishNext } = await withHistory();
  await damageTable(installed.mirrorPath, `history.${permits}`);
  publishNext(datasetOf('permits'));
  publishNext(datasetOf('parcels'));
  await installed.run('resync', datasetOf('permits'));
  const reported = await installed.run('once');
  expect(reported, reported.stderr).toMatchObject({ exitCode: 74 });
  expect(reported.stdout).toContain(`the service does not have it: history.${permits}.`);
  await once(installed);
  await expectMirrored(installed, feed);
  await expectMirrored({ ...installed, mirrorPath: copy }, feed);
  expect(await installed.run('verify')).toMatchObject({ exitCode: 0 });
});

it('F58 a load of its table closes a damaged undo log, and the snapshot is not blamed', async () => {
  const { feed, installed, permits, datasetOf } = await withHistory();
  await damageTable(installed.mirrorPath, `history.${permits}`);
  await damageTable(installed.mirrorPath, `main.${permits}`);
  await installed.run('resync', datasetOf('permits'));
  const reported = await installed.run('once');
  expect(reported.stdout + reported.stderr).not.toContain('data_invalid');
  expect(reported, reported.stderr).toMatchObject({ exitCode: 74 });
  await once(installed);
  await expectMirrored(installed, feed);
  expect(await installed.run('verify')).toMatchObject({ exitCode: 0 });
});

it('F58 a damaged archived table is reported once and kept as it is, and copies go on without it', async () => {
  const { feed, installed, copy, datasetOf, publishNext } = await withHistory();
  const [archived = ''] = await tablesIn(installed.mirrorPath, 'archived');
  await damageTable(installed.mirrorPath, `archived.${archived}`);
  publishNext(datasetOf('parcels'));
  const reported = await installed.run('once');
  expect(reported, reported.stderr).toMatchObject({ exitCode: 74 });
  expect(reported.stdout).toContain(`the service does not have it: archived.${archived}.`);
  expect(await tablesIn(installed.mirrorPath, 'archived')).toEqual([`${archived}__damaged`]);
  publishNext(datasetOf('permits'));
  const warned = await installed.run('once');
  expect(warned, warned.stderr).toMatchObject({ exitCode: 0 });
  const kept = 'are kept as they were found';
  expect(warned.stderr).toContain(`Damaged tables of the past ${kept}`);
  expect(warned.stderr).toContain(`archived.${archived}__damaged`);
  expect((await installed.run('doctor')).stdout).toContain(`${kept}: archived.${archived}__damaged.`);
  await expectMirrored(installed, feed);
  const different = await mirrorDifferences(copy, everythingPublished(feed));
  expect(different.filter((one) => !one.includes(archived))).toEqual([]);
  expect(await tablesIn(copy, 'archived')).toEqual([]);
  expect(await installed.run('verify')).toMatchObject({ exitCode: 0 });
  await writeMirror(installed.mirrorPath, `DROP TABLE archived."${archived}__damaged"`);
  expect((await installed.run('once')).stderr).not.toContain(kept);
});

it('F58 the rest of a closed undo log that is damaged later is reported once and kept, and copies go on without it', async () => {
  const { feed, installed, copy, permits, datasetOf, publishNext } = await withHistory();
  await writeMirror(installed.mirrorPath, `UPDATE history."${permits}" SET _version = _version + 1`);
  expect((await installed.run('verify')).stdout).toContain(`history.${permits}`);
  const rest = `history.${permits}_unusable`;
  await damageTable(installed.mirrorPath, rest);
  publishNext(datasetOf('parcels'));
  const reported = await installed.run('once');
  expect(reported, reported.stderr).toMatchObject({ exitCode: 74 });
  expect(reported.stdout).toContain(`the service does not have it: ${rest}.`);
  publishNext(datasetOf('permits'));
  const warned = await once(installed);
  expect(warned.stderr).toContain(`${rest}__damaged`);
  await expectMirrored(installed, feed);
  await expectMirrored({ ...installed, mirrorPath: copy }, feed);
  expect(await tablesIn(copy, 'history')).not.toContain(`${permits}_unusable__damaged`);
  expect(await installed.run('verify', '--deep')).toMatchObject({ exitCode: 0 });
});

it('F58 an impossible number in a sound block of the list of undo logs quarantines the mirror', async () => {
  const { feed, installed } = await withHistory();
  await writeMirror(
    installed.mirrorPath,
    `UPDATE feed_sync.history_logs SET row_count = ${2n ** 60n} WHERE frozen_commit IS NULL`,
  );
  const found = await installed.run('verify');
  expect(found).toMatchObject({ exitCode: 74 });
  expect(found.stderr).toContain(`Its bookkeeping holds an impossible value: column 9 is the number`);
  await once(installed);
  await expectMirrored(installed, feed);
  expect(await installed.run('verify', '--deep')).toMatchObject({ exitCode: 0 });
});

it.each([
  ['no format', `UPDATE feed_sync.meta SET key = 'chapter' WHERE key = 'format_version'`],
  ['a name with a NUL', `UPDATE feed_sync.subscriptions SET name = chr(0) || 'added'`],
  ['another subscription', `UPDATE feed_sync.meta SET value = 'changed' WHERE key = 'subscription_id'`],
  ['one name for all tables', `UPDATE feed_sync.names SET table_name = 'main'`],
  ['two names for a dataset', `INSERT INTO feed_sync.names SELECT dataset_id, 'other' FROM feed_sync.names`],
  ['an archived table without a name', `UPDATE feed_sync.archived SET table_name = ''`],
  ['an archived table of no dataset', `UPDATE feed_sync.archived SET dataset_id = 'sub_1'`],
  [
    'a table of another name',
    `UPDATE feed_sync.datasets SET table_name = 'main' WHERE dataset_id LIKE '%permits'`,
  ],
])('F58 a catalog with %s in a sound block quarantines the mirror', async (_, statement) => {
  const { feed, installed } = await withHistory();
  await writeMirror(installed.mirrorPath, statement);
  for (const words of [['verify', '--deep'], ['verify']]) {
    const found = await installed.run(...words);
    expect(found, found.stderr).toMatchObject({ exitCode: 74 });
    expect(found.stderr).toContain('Its bookkeeping holds an impossible value: ');
  }
  await once(installed);
  await expectMirrored(installed, feed);
  expect(await installed.run('verify', '--deep')).toMatchObject({ exitCode: 0 });
});
