/**
 * What readers see through objects of their own on a table, and in transactions that were begun before, while versions of every kind
 * come (F75): nothing but versions. READER_VERSIONS sets how many; the default takes less than a minute.
 */

import process from 'node:process';
import { describe, expect, it, vi } from 'vitest';
import { EMBEDDED } from '../../fixtures/postgres-server.ts';
import type { Change, Row, SourceColumn } from '../../fixtures/source/content.ts';
import type { JobResult } from '../../src/destination/destination.ts';
import { firstContent, type PublishedCourse, sourceSchema } from '../support/duckdb-changes.ts';
import { PATIENCE_MS } from '../support/patience.ts';
import { type DatabaseAtWork, databaseAtWork } from '../support/postgres-destination.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';
import {
  isCommitWaiting,
  makeObjects,
  type Names,
  namesOf,
  objectsLeft,
  REFERRED,
  ReaderSession,
  remakeObjects,
  WAYS,
} from '../support/reader-objects.ts';
import { column } from '../support/small-content.ts';

const VERSIONS = Number(process.env['READER_VERSIONS'] ?? 30);
/** Whoever runs many sees how far they are. */
const REPORTED_EVERY = 100;
// Only against a test that hangs for ever.
vi.setConfig({ testTimeout: 6 * PATIENCE_MS + VERSIONS * 30_000 });

/** What happens one after another, again and again; each version has rows of its own. */
const STEPS = [
  'changes',
  'additive by changes',
  'reload',
  'changes',
  'additive',
  'breaking',
  'changes',
  'archived and returned',
  'reload',
  'breaking',
  'changes',
  'kept and returned',
] as const;
type Step = (typeof STEPS)[number];

const BASE: readonly SourceColumn[] = [column('id', 'integer', false), column('name', 'string')];

/** A course of versions, and the names in each of them. */
class Versions {
  readonly #named = new Map<Names, number>();
  #columns = BASE;
  #version = 0;
  #others = 0;

  get newest(): number {
    return this.#version;
  }

  /** @throws where the names are those of no version. */
  versionOf(names: Names): number {
    const version = this.#named.get(names);
    if (version === undefined) throw new Error(`no version has these names: ${names}`);
    return version;
  }

  /** The rows of the next version. A column that is not in the base has the number of the version. */
  rows(hasSameKeys: boolean): readonly Row[] {
    this.#version += 1;
    if (!hasSameKeys) this.#others = this.#version % 5;
    const ids = [...REFERRED, ...Array.from({ length: this.#others }, (_, index) => 10 + index)];
    const rows = ids.map((id): Row => {
      const name = id === 1 ? `version ${this.#version}` : id === 2 ? 'two' : `of ${this.#version}`;
      const others = this.#columns.slice(BASE.length);
      return [id, name, ...others.map(({ type }) => (type === 'string' ? 'text' : this.#version))];
    });
    this.#named.set(namesOf(rows), this.#version);
    return rows;
  }

  alter(step: Step): void {
    if (step !== 'breaking') {
      this.#columns = [...this.#columns, column(`added_${this.#version}`, 'integer')];
      return;
    }
    // Added columns get another type, and at the next time they go.
    const areTexts = this.#columns.some(({ type }, index) => index >= BASE.length && type === 'string');
    const others = this.#columns.slice(BASE.length);
    this.#columns = areTexts
      ? BASE
      : [...BASE, ...others.map((other) => ({ ...other, type: 'string' as const }))];
  }

  schema() {
    return { ...sourceSchema(this.#columns), schemaVersion: `columns of ${this.#version}` };
  }
}

interface Played {
  readonly world: DatabaseAtWork;
  readonly course: PublishedCourse;
  readonly versions: Versions;
}

/** Publishes the next version, and returns what commits it. */
function published(step: Step, { world, course, versions }: Played): () => Promise<JobResult> {
  if (step === 'changes') {
    course.publishRows(versions.rows(false));
    return () => world.apply(course);
  }
  const isAdditive = step === 'additive' || step === 'additive by changes';
  if (isAdditive || step === 'breaking') versions.alter(step);
  const rows = versions.rows(step === 'additive by changes');
  const changes = rows.map((row): Change => ({ op: 'changed', row }));
  const isByChanges = step === 'additive by changes';
  const { newest } = course;
  const schema = isAdditive || step === 'breaking' ? versions.schema() : newest().content.schema;
  course.publish({ schema, rowCount: rows.length, rows: () => rows, changes: isByChanges ? changes : null });
  return () => (isByChanges ? world.apply(course) : world.load(course));
}

interface Readers {
  readonly asking: ReaderSession;
  readonly prepared: ReaderSession;
  /** Is in a transaction that sees what is committed. */
  readonly committed: ReaderSession;
  /** Is in a transaction that has read the table, and sees what it saw then. */
  readonly repeatable: ReaderSession;
  /** Is in one that was begun as early, and has not read the table. */
  readonly early: ReaderSession;
}

interface Looking {
  readonly before: number;
  readonly after: number;
  readonly isMoved: boolean;
  readonly isOver: () => boolean;
}

/** Looks by every way until the commit is over, or waits for the open transactions. */
async function observe(
  { asking, prepared, committed, repeatable }: Readers,
  versions: Versions,
  { before, after, isMoved, isOver }: Looking,
): Promise<void> {
  let seen = before;
  // None sees anything else than the two, nor the earlier one again.
  const expectVersion = (names: Names): void => {
    const version = versions.versionOf(names);
    expect([before, after]).toContain(version);
    expect(version).toBeGreaterThanOrEqual(seen);
    seen = version;
  };
  for (let isLast = false; !isLast; ) {
    isLast = isOver() || (await isCommitWaiting(asking));
    expectVersion(await asking.names(WAYS.view));
    if (!isMoved) expectVersion(await asking.names(WAYS.function));
    if (!isMoved) expectVersion((await prepared.preparedNames()).names);
    expectVersion(await committed.names(WAYS.view));
    expect(versions.versionOf(await repeatable.names(WAYS.view))).toBe(before);
  }
}

describe.skipIf(EMBEDDED.folder === null)('readers of a table in PostgreSQL', () => {
  const server = postgresOfTests(EMBEDDED);

  async function opened(address: string): Promise<Readers> {
    const [asking, prepared, committed, repeatable, early] = await Promise.all(
      Array.from({ length: 5 }, () => ReaderSession.open(address)),
    );
    if (!(asking && prepared && committed && repeatable && early)) throw new Error('there are five');
    return { asking, prepared, committed, repeatable, early };
  }

  it(`F75 readers see nothing but versions by their objects and in open transactions, through ${VERSIONS} versions`, async () => {
    const address = await server.database();
    // A commit waits for the transactions of readers as long as the test needs.
    const world = await databaseAtWork(address, { lockWaitMs: PATIENCE_MS });
    const versions = new Versions();
    const course = await world.loaded(firstContent(sourceSchema(BASE), versions.rows(false)));
    const readers = await opened(address);
    const { asking, prepared, committed, repeatable, early } = readers;
    await asking.rows('CREATE ROLE a_reader');
    await asking.rows('CREATE PUBLICATION everything FOR ALL TABLES');
    await makeObjects(asking);

    interface Expected {
      readonly after: number;
      /** The table goes from its place, or another one comes there. */
      readonly isMoved: boolean;
      /** The table is written anew, which PostgreSQL shows as empty to whoever began before and reads it then. */
      readonly isRewritten: boolean;
    }

    /** Commits while readers look. */
    async function watched(
      commit: () => Promise<JobResult>,
      { after, isMoved, isRewritten }: Expected,
    ): Promise<void> {
      const before = versions.versionOf(await asking.names(WAYS.view));
      await committed.rows('BEGIN');
      await repeatable.rows('BEGIN ISOLATION LEVEL REPEATABLE READ');
      await early.rows('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class LIMIT 1');
      for (const session of [committed, repeatable]) {
        expect(versions.versionOf(await session.names(WAYS.view))).toBe(before);
      }
      let isOver = false;
      const committing = commit().finally(() => {
        isOver = true;
      });
      await observe(readers, versions, { before, after, isMoved, isOver: () => isOver });
      for (const session of [committed, repeatable]) await session.rows('COMMIT');
      expect(await committing).toMatchObject({ kind: expect.stringMatching(/^(?:committed|retired)$/) });
      const then = await early.names(WAYS.view);
      await early.rows('COMMIT');
      if (!isRewritten || then !== '[]') expect(versions.versionOf(then)).toBe(before);
    }

    for (let number = 1; number < VERSIONS; number += 1) {
      const step = STEPS[number % STEPS.length] ?? 'changes';
      const isKept = step === 'kept and returned';
      const isRetired = isKept || step === 'archived and returned';
      const before = versions.newest;
      const isMoved = step === 'archived and returned';
      const isRewritten = step === 'breaking';
      if (isRetired) {
        const retire = () => world.retire(course, isKept ? 'keep' : 'archive');
        await watched(retire, { after: before, isMoved, isRewritten });
      }
      const commit = published(step, { world, course, versions });
      await watched(commit, { after: versions.newest, isMoved, isRewritten });
      expect(versions.versionOf(await asking.names(WAYS.table)), step).toBe(versions.newest);
      expect(await objectsLeft(asking), step).toEqual([2, 2, true, 2, 1]);
      if (isMoved) {
        // The objects went with the table that was archived, and show what it has.
        expect(versions.versionOf(await asking.names(WAYS.view))).toBe(before);
        await prepared.forgetPrepared();
        await remakeObjects(asking);
      }
      expect(versions.versionOf(await asking.names(WAYS.view)), step).toBe(versions.newest);
      expect(versions.versionOf((await prepared.preparedNames()).names), step).toBe(versions.newest);
      const known = versions.versionOf(await asking.names('SELECT id, name FROM public.known ORDER BY id'));
      expect(known).toBeLessThanOrEqual(versions.newest);
      await asking.rows('REFRESH MATERIALIZED VIEW public.known');
      const refreshed = await asking.names('SELECT id, name FROM public.known ORDER BY id');
      expect(versions.versionOf(refreshed), step).toBe(versions.newest);
      if (number % REPORTED_EVERY === 0) process.stderr.write(`${number} versions.\n`);
    }
    const [[commits] = []] = await asking.rows(
      "SELECT count(*)::int FROM feed_sync.commits WHERE kind <> 'retire'",
    );
    expect(commits).toBe(VERSIONS);
  });
});
