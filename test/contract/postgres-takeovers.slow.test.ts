/**
 * Many takeovers between two instances on one database, with commits in between and under way: no version is lost, none is committed
 * twice, none is written over a newer one. TAKEOVERS sets their number; the default takes less than a minute.
 */

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import type { Row } from '../../fixtures/source/content.ts';
import type { ChangesJob } from '../../src/model/write-jobs.ts';
import { seededRandom } from '../exploration/random.ts';
import { firstContent, type PublishedCourse, publishedCourse } from '../support/duckdb-changes.ts';
import { temporaryFolder } from '../support/duckdb-mirror.ts';
import { type DestinationAtWork, destinationAtWork } from '../support/mirror-at-work.ts';
import { eventually, PATIENCE_MS } from '../support/patience.ts';
import { PEOPLE } from '../support/people.ts';
import { databaseAtWork, openDatabase } from '../support/postgres-destination.ts';
import { postgresOfTest } from '../support/postgres-of-tests.ts';
import { SEED } from '../support/seed.ts';

const TAKEOVERS = Number(process.env['TAKEOVERS'] ?? 20);
/** TAKEOVERS_SEED chooses others. */
const TAKEOVERS_SEED = Number(process.env['TAKEOVERS_SEED'] ?? SEED);
const EXPIRED_EVERY_MS = 200;
/** Whoever runs many sees how far they are. */
const REPORTED_EVERY = 100;
// Only against a test that hangs for ever.
vi.setConfig({ testTimeout: 6 * PATIENCE_MS + TAKEOVERS * 30_000 });

/** Row 1 names the version. */
const rowsOf = (version: number): readonly Row[] => [
  [1, `version ${version}`],
  [2, 'two'],
  ...Array.from({ length: version % 5 }, (_, index): Row => [index + 3, `of ${version}`]),
];

interface Instance {
  readonly course: PublishedCourse;
  readonly world: DestinationAtWork;
}

/** The lease ends as it does for an instance that hangs, just before its commit or while it commits. Returns whether it committed. */
async function commitsBeside(
  { world }: Instance,
  planned: ChangesJob,
  isUnderWay: boolean,
  takeOver: () => Promise<void>,
): Promise<boolean> {
  const committing = isUnderWay ? world.execute(planned) : null;
  await takeOver();
  const [result] = await (committing ?? world.execute(planned));
  if (result?.kind === 'committed') return true;
  expect(result?.kind).toBe('failed');
  if (!isUnderWay) expect(result).toMatchObject({ error: { code: 'instance_running' } });
  return false;
}

/** Every version up to that of the table was committed once, in order, and the table is that version. */
async function expectWhole(address: string): Promise<void> {
  const [found] = await statement(
    address,
    `SELECT (SELECT string_agg(to_version::text, ' ' ORDER BY commit_number) FROM feed_sync.commits), version, row_count,
      (SELECT count(*) FROM feeds.parcels), (SELECT name FROM feeds.parcels WHERE id = 1) FROM feed_sync.datasets`,
  );
  const version = Number(found?.[1]);
  const rows = String(rowsOf(version).length);
  const committed = Array.from({ length: version }, (_, index) => String(index + 1)).join(' ');
  expect(found).toEqual([committed, String(version), rows, rows, `version ${version}`]);
}

if (EMBEDDED.folder === null) process.stderr.write('SKIPPED: npm has installed no PostgreSQL.\n');

describe.skipIf(EMBEDDED.folder === null)('takeovers', () => {
  it(`F73 ${TAKEOVERS} takeovers lose no version, commit none twice and write none over a newer one`, async () => {
    const server = await postgresOfTest(EMBEDDED);
    const address = await server.database();
    const folder = await temporaryFolder();
    onTestFinished(() => folder[Symbol.asyncDispose]());
    // Each instance finds the same versions in a folder of its own.
    const places = ['one', 'two'].map((name) => {
      const path = join(folder.path, name);
      mkdirSync(path);
      return { path, course: publishedCourse(path, firstContent(PEOPLE, rowsOf(1)), 'parcels') };
    });
    const chance = seededRandom(TAKEOVERS_SEED);
    const below = (limit: number): number => Math.floor(chance() * limit);
    let newest = 1;
    const publish = (): void => {
      newest += 1;
      for (const { course } of places) course.publishRows(rowsOf(newest));
    };
    const open = async (turn: number): Promise<Instance> => {
      const { path, course } = places[turn % 2] as (typeof places)[number];
      const destination = await openDatabase(address, path, { leaseMs: 60_000 });
      return { course, world: await destinationAtWork(path, destination) };
    };
    let working = await open(0);
    await working.world.load(working.course);
    let underWay = 0;
    for (let turn = 1; turn <= TAKEOVERS; turn += 1) {
      for (let commits = below(3); commits > 0; commits -= 1) {
        publish();
        expect(await working.world.apply(working.course)).toMatchObject({ kind: 'committed' });
      }
      publish();
      const before = working;
      const planned = await before.course.changes(await before.world.observed());
      const isUnderWay = below(2) === 0;
      const takeOver = async (): Promise<void> => {
        const [[epoch = ''] = []] = await statement(address, 'SELECT epoch FROM feed_sync.lease');
        const expiry = `UPDATE feed_sync.lease SET expires_at = clock_timestamp() WHERE epoch = ${epoch}`;
        const opening = open(turn);
        const isOver = opening.then(
          () => true,
          () => true,
        );
        // The first still runs, and may renew its lease in between.
        do await statement(address, expiry);
        while (!(await Promise.race([isOver, sleep(EXPIRED_EVERY_MS, false)])));
        working = await opening;
      };
      if (await commitsBeside(before, planned, isUnderWay, takeOver)) underWay += 1;
      await expectWhole(address);
      // It goes on at the version that stands, which the woken one cannot change.
      if ((await working.world.observed()).version < newest) {
        expect(await working.world.apply(working.course)).toMatchObject({ kind: 'committed' });
      }
      const [late] = await before.world.execute(planned);
      expect(late).toMatchObject({ kind: 'failed', error: { code: 'instance_running' } });
      await before.world.destination.close();
      await expectWhole(address);
      if (turn % REPORTED_EVERY === 0) process.stderr.write(`${turn} takeovers, ${newest} versions.\n`);
    }
    expect((await working.world.observed()).version).toBe(newest);
    process.stderr.write(
      `${TAKEOVERS} takeovers, ${newest} versions, seed ${TAKEOVERS_SEED}; ${underWay} commits ended beside one.\n`,
    );
    await working.world.destination.close();
  });

  it('F72 a standby leaves a commit alone that takes ten times the lease', async () => {
    const server = await postgresOfTest(EMBEDDED);
    const first = await databaseAtWork(await server.database(), { leaseMs: 4_000 });
    const course = await first.loaded(firstContent(PEOPLE, rowsOf(1)));
    await first.byHand(`CREATE FUNCTION feeds.slowly() RETURNS trigger LANGUAGE plpgsql
      AS 'BEGIN PERFORM pg_sleep(40); RETURN NULL; END'`);
    await first.byHand(`CREATE TRIGGER slowly AFTER UPDATE ON feeds.parcels
      FOR EACH STATEMENT EXECUTE FUNCTION feeds.slowly()`);
    const holders = new Set<string>();
    const folder = await temporaryFolder();
    onTestFinished(() => folder[Symbol.asyncDispose]());
    const onStandby = (holder: string): void => void holders.add(holder);
    const options = { leaseMs: 4_000, holder: 'the second', onStandby };
    const second = openDatabase(first.address, folder.path, options);
    await eventually(() => expect(holders).not.toEqual(new Set()));
    course.publishRows(rowsOf(2));
    expect(await first.apply(course)).toMatchObject({ kind: 'committed' });
    expect(await first.byHand('SELECT epoch, holder FROM feed_sync.lease')).toEqual([['1', 'a test']]);
    await first.destination.close();
    await (await second).close();
    expect(holders).toEqual(new Set(['a test']));
    await expectWhole(first.address);
  });
});
