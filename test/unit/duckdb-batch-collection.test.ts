/** Write jobs that one write session collects, at once and one batch after another: two of one dataset, a failure, an interruption. */

import { describe, expect, it, onTestFinished } from 'vitest';
import type { Row } from '../../fixtures/source/content.ts';
import type { JobResult, ValidatedJob } from '../../src/destination/destination.ts';
import { present } from '../../src/lib/assert.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { observeDurableEffects } from '../../src/lib/files.ts';
import { InapplicableChangesError, InterruptedError } from '../../src/model/errors.ts';
import type { ObservedTable, WriteJob } from '../../src/model/write-jobs.ts';
import { firstContent, type PublishedCourse } from '../support/duckdb-changes.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { errorOf, type MirrorAtWork, mirrorAtWork, retirement } from '../support/mirror-at-work.ts';
import { PEOPLE, THREE_PEOPLE } from '../support/people.ts';

const FIRST = THREE_PEOPLE.slice(0, 2);
const SECOND: readonly Row[] = [[1, 'ONE'], ...FIRST.slice(1)];
const THIRD: readonly Row[] = [...SECOND, [3, 'three']];

interface Given {
  readonly course: PublishedCourse;
  /** Version 1; the newest is version 2. */
  readonly observed: ObservedTable;
}

type Plan = (given: Given) => Promise<WriteJob>;

const load: Plan = ({ course, observed }) => course.snapshot(course.newest(), observed);
const loadAnew: Plan = ({ course }) => course.snapshot(course.newest(), null);
const change: Plan = ({ course, observed }) => course.changes(observed);
const retire: Plan = async ({ observed }) => retirement(observed, 'drop');
const changeAfterLoad: Plan = async ({ course, observed }) => {
  const { digest } = await course.snapshot(course.newest(), observed);
  course.publishRows(THIRD);
  // The first loads of eight tables and the first case come before the load that this builds on.
  const commitNumber = 8 + 2 + 1;
  const loaded = { commitNumber, version: 2, snapshotVersion: 2, snapshotDigest: digest };
  return course.changes({ ...observed, ...loaded });
};

type Fate = readonly [JobResult['kind'], JobResult['kind'], version: number | null];

it('judges the second of two write jobs of one dataset in a batch by the table that the first left', async () => {
  const cases: Readonly<Record<string, readonly [Plan, Plan, Fate]>> = {
    retired_loaded_anew: [retire, loadAnew, ['retired', 'committed', 2]],
    loaded_changed_from_that: [load, changeAfterLoad, ['committed', 'committed', 3]],
    loaded_changed: [load, change, ['committed', 'stale-plan', 2]],
    loaded_retired: [load, retire, ['committed', 'stale-plan', 2]],
    changed_loaded: [change, load, ['committed', 'stale-plan', 2]],
    changed_retired: [change, retire, ['committed', 'stale-plan', 2]],
    retired_loaded: [retire, load, ['retired', 'stale-plan', null]],
    retired_changed: [retire, change, ['retired', 'stale-plan', null]],
  };
  const world = await mirrorAtWork();
  const ids = Object.keys(cases);
  const courses = new Map(ids.map((id) => [id, world.published(firstContent(PEOPLE, FIRST), id)]));
  const courseOf = (id: string) => present(courses.get(id), 'it is published');
  await world.execute(
    ...(await Promise.all(ids.map((id) => courseOf(id).snapshot(courseOf(id).newest(), null)))),
  );
  const { datasets } = await world.mirror.has();
  const fates: [string, Fate][] = [];
  for (const [id, [first, second]] of Object.entries(cases)) {
    const given = { course: courseOf(id), observed: present(datasets.get(id), 'it is loaded') };
    given.course.publishRows(SECOND);
    const outcomes = await world.execute(await first(given), await second(given));
    const [firstKind = 'failed', secondKind = 'failed'] = outcomes.map(({ kind }) => kind);
    const table = (await world.mirror.has()).datasets.get(id);
    fates.push([id, [firstKind, secondKind, table?.version ?? null]]);
  }
  expect(fates).toEqual(Object.entries(cases).map(([id, [, , fate]]) => [id, fate]));
  const live = fates.filter(([, [, , version]]) => version !== null);
  expect(await world.differences(...live.map(([id]) => courseOf(id)))).toEqual([]);
});

describe('batches within one write session', () => {
  /** By this clock opening the mirror takes a second, as does every reading of the clock: the write session lasts for several batches. */
  function slowlyOpened() {
    let nowMs = 0;
    const monotonicMs = () => {
      nowMs += 1_000;
      return nowMs;
    };
    return { ...systemClock, monotonicMs };
  }

  interface Announcement {
    readonly batches: number;
    readonly sessions: number;
    readonly outcomes: readonly JobResult[];
  }

  function firstLoad(world: MirrorAtWork, datasetId: string): Promise<WriteJob> {
    const course = world.published(firstContent(PEOPLE, FIRST), datasetId);
    return course.snapshot(course.newest(), null);
  }

  /** Collects each list as a batch; `onBatch` is called with its number, from one on. */
  async function commitBatches(
    { mirror }: MirrorAtWork,
    batches: readonly (readonly WriteJob[])[],
    onBatch: (batch: number) => void = () => {},
  ): Promise<Announcement> {
    const ready: ValidatedJob[][] = [];
    for (const jobs of batches) {
      const prepared: ValidatedJob[] = [];
      for (const job of jobs) prepared.push(await mirror.validate(job));
      ready.push(prepared);
    }
    const [outcomes, sessions]: [JobResult[], string[]] = [[], []];
    let collected = 0;
    observeDurableEffects((name, timestamp) => {
      if (name === 'destination.attach' && timestamp === 'before') sessions.push(name);
    });
    onTestFinished(() => observeDurableEffects(() => {}));
    await mirror.commit({
      arrival: () => Promise.resolve(),
      take() {
        const jobs = ready.shift() ?? [];
        if (jobs.length > 0) onBatch(++collected);
        return jobs;
      },
      report: (_, outcome) => void outcomes.push(outcome),
    });
    return { batches: collected, sessions: sessions.length, outcomes };
  }

  it('commits later batches although an earlier write job fails, and reports the failure at the end of the session', async () => {
    const world = await mirrorAtWork({ clock: slowlyOpened() });
    const broken = await world.loaded(firstContent(PEOPLE, FIRST), 'broken');
    await world.byHand('DELETE FROM broken WHERE id = 2');
    broken.publishRows(SECOND);
    const changes = await broken.changes(await world.observed('broken'));
    const batches = [[changes, await firstLoad(world, 'a')], [await firstLoad(world, 'b')]];
    const { outcomes, ...reported } = await commitBatches(world, batches);
    expect(reported).toEqual({ batches: 2, sessions: 1 });
    expect(outcomes).toMatchObject([
      { kind: 'committed', datasetId: 'a' },
      { kind: 'committed', datasetId: 'b' },
      { kind: 'failed', datasetId: 'broken' },
    ]);
    expect(errorOf(outcomes[2] as JobResult)).toBeInstanceOf(InapplicableChangesError);
    const recorded = 'SELECT dataset_id, version FROM feed_sync.datasets ORDER BY dataset_id';
    expect(await inMirror(world.folder, recorded)).toEqual([
      ['a', '1'],
      ['b', '1'],
      ['broken', '1'],
    ]);
  });

  it('F12 fails the batch that is interrupted, keeps earlier batches committed, and reports each result once', async () => {
    const stop = new AbortController();
    const world = await mirrorAtWork({ clock: slowlyOpened(), signal: stop.signal });
    const batches: WriteJob[][] = [];
    for (const ids of [['a'], ['b', 'c']]) {
      const jobs: WriteJob[] = [];
      for (const id of ids) jobs.push(await firstLoad(world, id));
      batches.push(jobs);
    }
    const { outcomes, sessions } = await commitBatches(world, batches, (batch) => {
      if (batch === 2) stop.abort();
    });
    expect(sessions).toBe(1);
    expect(outcomes).toMatchObject([
      { kind: 'committed', datasetId: 'a' },
      { kind: 'failed', datasetId: 'b', error: { name: InterruptedError.name } },
      { kind: 'failed', datasetId: 'c', error: { name: InterruptedError.name } },
    ]);
    expect(await inMirror(world.folder, 'SELECT dataset_id FROM feed_sync.datasets')).toEqual([['a']]);
  });
});
