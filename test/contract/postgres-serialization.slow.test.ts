/** Commits that the server ends for the sake of others (40001): repeated and done once, or reported as what they are. */

import process from 'node:process';
import { describe, expect, it, onTestFinished } from 'vitest';
import { EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import type { Row } from '../../fixtures/source/content.ts';
import { commandLine } from '../support/command-line.ts';
import { countyFeed } from '../support/county-feed.ts';
import { firstContent } from '../support/duckdb-changes.ts';
import { PEOPLE } from '../support/people.ts';
import { databaseAtWork } from '../support/postgres-destination.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';

const FIRST: readonly Row[] = [
  [1, 'one'],
  [2, 'two'],
];
const NEXT: readonly Row[] = [
  [1, 'ONE'],
  [3, 'three'],
];
/** A sequence counts the attempts: nothing rolls it back. */
const COUNTED = 'CREATE SEQUENCE public.attempts';
const ATTEMPTS = 'SELECT last_value FROM public.attempts';
/** The words of the server itself. */
const SAID = 'could not serialize access due to concurrent update';

/** A trigger of a reader by which a commit fails so many times. */
const failing = (
  times: number,
): string => `CREATE FUNCTION public.serialize() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF nextval('public.attempts') <= ${times} THEN RAISE EXCEPTION '${SAID}' USING ERRCODE = '40001'; END IF;
    RETURN NULL;
  END $$`;
const ON_STATEMENT = 'AFTER INSERT OR UPDATE OR DELETE ON %s EXECUTE FUNCTION public.serialize()';
const TIMES = [
  ['in a statement', `CREATE TRIGGER serialize ${ON_STATEMENT}`],
  [
    'at COMMIT',
    `CREATE CONSTRAINT TRIGGER serialize AFTER INSERT ON %s DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION public.serialize()`,
  ],
] as const;

if (EMBEDDED.folder === null) process.stderr.write('SKIPPED: npm has installed no PostgreSQL.\n');

describe.skipIf(EMBEDDED.folder === null)('serialization failures', () => {
  const server = postgresOfTests(EMBEDDED);

  it.each(TIMES)('F74 a commit that fails twice %s with 40001 is done once', async (_, trigger) => {
    const address = await server.database();
    const world = await databaseAtWork(address);
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    for (const sql of [COUNTED, failing(2), trigger.replace('%s', 'feeds.parcels')]) await world.byHand(sql);
    course.publishRows(NEXT);
    expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
    const rows = await world.byHand('SELECT id, name FROM feeds.parcels ORDER BY id');
    expect(rows).toEqual(NEXT.map((row) => row.map(String)));
    const versions = await world.byHand('SELECT to_version FROM feed_sync.commits ORDER BY commit_number');
    expect(versions).toEqual([['1'], ['2']]);
    expect(Number((await world.byHand(ATTEMPTS))[0]?.[0])).toBeGreaterThanOrEqual(3);
  });

  it.each(TIMES)(
    'F74 a commit that always fails %s with 40001 holds up its dataset alone: 75',
    async (_, trigger) => {
      const made = await countyFeed({ kinds: ['parcels', 'permits'], rowsPerDataset: 20 });
      const address = await server.database();
      const environment = { FEED_SYNC_DESTINATION_URL: address, PATH: process.env['PATH'] ?? '' };
      const line = commandLine({ feed: made.feed, now: () => made.feed.clock.now(), environment });
      onTestFinished(() => line.remove());
      expect(await line.run('once')).toMatchObject({ exitCode: 0 });
      const held = made.datasetOf('permits');
      const versions = `SELECT version FROM feed_sync.datasets ORDER BY dataset_id = '${held}'`;
      const [[table = ''] = []] = await statement(
        address,
        `SELECT table_name FROM feed_sync.datasets WHERE dataset_id = '${held}'`,
      );
      const always = trigger.replace('%s', `feeds.${table}`);
      for (const sql of [COUNTED, failing(1_000), always]) await statement(address, sql);
      for (const datasetId of made.datasetIds) made.publishNext(datasetId);
      const { exitCode, stdout, stderr } = await line.run('once');
      expect(exitCode, stdout + stderr).toBe(75);
      expect(stdout).toContain('table_locked');
      expect(stdout).toContain(`for the sake of others: ${SAID}.`);
      expect(stdout).toContain('mend the trigger on the table');
      expect(stdout + stderr).not.toContain('is not available');
      expect(await statement(address, versions)).toEqual([['2'], ['1']]);
      expect((await statement(address, ATTEMPTS))[0]?.[0]).toBe('5');
      await statement(address, `DROP TRIGGER serialize ON feeds.${table}`);
      expect(await line.run('once')).toMatchObject({ exitCode: 0 });
      expect(await statement(address, versions)).toEqual([['2'], ['2']]);
      expect(await line.run('verify', '--deep')).toMatchObject({ exitCode: 0 });
    },
  );
});
