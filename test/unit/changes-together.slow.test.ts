/** Small changes of tables that are alike are read by the same statements, and have the net change that each has alone. */

import { readFile, writeFile } from 'node:fs/promises';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Row } from '../../fixtures/source/content.ts';
import type { ValidatedJob } from '../../src/destination/destination.ts';
import { present } from '../../src/lib/assert.ts';
import { BadChangesError, InapplicableChangesError } from '../../src/model/errors.ts';
import type { ChangesJob } from '../../src/model/write-jobs.ts';
import { MAX_JOBS_TOGETHER } from '../../src/staging/changes/net-change.ts';
import { Engine } from '../../src/staging/engine/engine.ts';
import { commitAll } from '../support/commit-all.ts';
import { firstContent, type PublishedCourse, sourceSchema } from '../support/duckdb-changes.ts';
import { manualClock } from '../support/duckdb-mirror.ts';
import { type MirrorAtWork, mirrorAtWork } from '../support/mirror-at-work.ts';
import { PEOPLE } from '../support/people.ts';
import { column } from '../support/small-content.ts';

const facts = sourceSchema([column('id', 'integer', false), column('fact', 'json')]);
const pairs = sourceSchema([column('id', 'integer', false), column('name', 'string'), column('n', 'number')]);

/** Counts the statements that read several jobs together, and those that read one alone. */
function watched(): { together: number; alone: number } {
  const count = { together: 0, alone: 0 };
  const run = vi.spyOn(Engine.prototype, 'run').mockImplementation(async function (this: Engine, sql) {
    if (sql.startsWith('CREATE OR REPLACE TEMP TABLE')) count.together += 1;
    if (sql.startsWith('COPY') && sql.includes('read_text')) count.alone += 1;
    await this.use((connection) => connection.run(sql));
  });
  onTestFinished(() => run.mockRestore());
  return count;
}

interface Prepares {
  readonly prepared: readonly ValidatedJob[];
  readonly errors: readonly unknown[];
}

/** All at once, so that they wait for each other. */
async function prepareAtOnce({ mirror }: MirrorAtWork, jobs: readonly ChangesJob[]): Promise<Prepares> {
  const settled = await Promise.allSettled(jobs.map((job) => mirror.validate(job)));
  return {
    prepared: settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : [])),
    errors: settled.map((each) => (each.status === 'rejected' ? each.reason : null)),
  };
}

async function coursesOf(
  world: MirrorAtWork,
  names: readonly string[],
  rowsOf: (index: number) => readonly Row[],
): Promise<readonly PublishedCourse[]> {
  const courses = [];
  for (const [index, name] of names.entries())
    courses.push(await world.loaded(firstContent(PEOPLE, rowsOf(index)), name));
  return courses;
}

async function jobsOf(world: MirrorAtWork, courses: readonly PublishedCourse[]): Promise<ChangesJob[]> {
  const jobs = [];
  for (const course of courses) jobs.push(await course.changes(await world.observed(course.datasetId)));
  return jobs;
}

const names = (count: number): readonly string[] => Array.from({ length: count }, (_, index) => `t${index}`);

describe('changes of tables that are alike', () => {
  it('reads changes of alike tables together: equal keys, removals and several versions among them', async () => {
    const world = await mirrorAtWork({ clock: manualClock() });
    const courses = await coursesOf(world, names(6), (index) => [
      [1, `first of ${index}`],
      [2, 'two'],
    ]);
    for (const [index, course] of courses.entries()) {
      course.publishRows([
        [1, `second of ${index}`],
        [2, 'two'],
        ...(index % 2 === 0 ? [[3, null] as Row] : []),
      ]);
      if (index === 4) course.publishRows([[1, 'second of 4']]);
    }
    const watch = watched();
    const { prepared, errors } = await prepareAtOnce(world, await jobsOf(world, courses));
    expect(errors).toEqual(courses.map(() => null));
    expect(watch.together).toBeGreaterThan(0);
    const outcomes = await commitAll(world.mirror, prepared);
    expect(outcomes.map(({ kind }) => kind)).toEqual(courses.map(() => 'committed'));
    expect(await world.differences(...courses)).toEqual([]);
  });

  it('reads no more jobs together than the limit, and each once', async () => {
    const world = await mirrorAtWork({ clock: manualClock() });
    const courses = await coursesOf(world, names(MAX_JOBS_TOGETHER + 3), () => [[1, 'one']]);
    for (const course of courses) course.publishRows([[1, 'ONE']]);
    const watch = watched();
    const { prepared } = await prepareAtOnce(world, await jobsOf(world, courses));
    expect(prepared).toHaveLength(courses.length);
    expect(watch.together).toBeGreaterThan(1);
    expect(watch.alone).toBeLessThan(3);
    await commitAll(world.mirror, prepared);
    expect(await world.differences(...courses)).toEqual([]);
  });

  it('coalesces jobs alone whose net change is smaller than what was listed', async () => {
    const world = await mirrorAtWork({ clock: manualClock() });
    const courses = await coursesOf(world, names(4), () => [[1, 'one']]);
    for (const course of courses) {
      course.publishRows([[1, 'ONE']]);
      course.publishRows([[1, 'One']]);
    }
    const watch = watched();
    const { prepared } = await prepareAtOnce(world, await jobsOf(world, courses));
    expect(watch.alone).toBe(courses.length);
    await commitAll(world.mirror, prepared);
    expect(await world.differences(...courses)).toEqual([]);
  });

  it.each([
    ['a value that does not fit its type', '"ONE"', '17', BadChangesError],
    ['counts that do not add up', '"op":"changed"', '"op":"removed"', InapplicableChangesError],
    ['a malformed page', '"changes"', '"CHANGES"', BadChangesError],
  ])(
    'fails one of several jobs alone for %s, with the same error as without the others',
    async (_, from, to, type) => {
      const world = await mirrorAtWork({ clock: manualClock() });
      const courses = await coursesOf(world, names(5), () => [[1, 'one']]);
      for (const course of courses) course.publishRows([[1, 'ONE']]);
      const jobs = await jobsOf(world, courses);
      const bad = present(jobs[3], 'there are five');
      const page = present(bad.versions[0]?.pages[0], 'a version has a page');
      await writeFile(page, (await readFile(page, 'utf8')).replace(from, to));
      const alone = await world.mirror.validate(bad).catch((error: unknown) => error);
      const watch = watched();
      const { prepared, errors } = await prepareAtOnce(world, jobs);
      expect(watch.together).toBeGreaterThan(0);
      expect(errors[3]).toBeInstanceOf(type);
      expect(errors[3]).toEqual(alone);
      expect(errors.filter((error) => error !== null)).toHaveLength(1);
      await commitAll(world.mirror, prepared);
      const sound = courses.filter(({ datasetId }) => datasetId !== bad.datasetId);
      for (const { datasetId } of sound)
        expect(await world.observed(datasetId)).toMatchObject({ version: 2 });
      expect(await world.observed(bad.datasetId)).toMatchObject({ version: 1 });
    },
  );

  it('refuses only the job with a number that would be rounded', async () => {
    const world = await mirrorAtWork({ clock: manualClock() });
    const courses = [];
    for (const name of names(4))
      courses.push(await world.loaded(firstContent(facts, [[1, { json: { a: 1 } }]]), name));
    for (const course of courses) course.publishRows([[1, { json: { a: 1.5 } }]]);
    const jobs = await jobsOf(world, courses);
    const page = present(jobs[2]?.versions[0]?.pages[0], 'a version has a page');
    await writeFile(page, (await readFile(page, 'utf8')).replace('1.5', '0.12345678901234567890123'));
    const { prepared, errors } = await prepareAtOnce(world, jobs);
    expect(errors.map((error) => error !== null)).toEqual([false, false, true, false]);
    expect(errors[2]).toBeInstanceOf(InapplicableChangesError);
    await commitAll(world.mirror, prepared);
  });

  it('does not mix the changes of tables that differ', async () => {
    const world = await mirrorAtWork({ clock: manualClock() });
    const courses = [];
    for (const [index, name] of names(8).entries()) {
      const isPair = index % 2 === 1;
      const first = isPair ? firstContent(pairs, [[1, 'one', 1]]) : firstContent(PEOPLE, [[1, 'one']]);
      const course = await world.loaded(first, name);
      course.publishRows(isPair ? [[1, 'ONE', 2.5]] : [[1, 'ONE']]);
      courses.push(course);
    }
    const { prepared } = await prepareAtOnce(world, await jobsOf(world, courses));
    await commitAll(world.mirror, prepared);
    expect(await world.differences(...courses)).toEqual([]);
  });
});
