/** What a window takes at once and one after another: two units of one dataset, one that fails, an interruption. */

import { describe, expect, it, onTestFinished } from 'vitest';
import type { Row } from '../../fixtures/source/content.ts';
import type { JobResult, ValidatedJob } from '../../src/destination/destination.ts';
import { present } from '../../src/lib/assert.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { observeDurableEffects } from '../../src/lib/files.ts';
import { InapplicableChangesError, InterruptedError } from '../../src/model/errors.ts';
import type { ObservedTable, WriteJob } from '../../src/model/write-jobs.ts';
import { firstContent, type PublishedCourse, sourceSchema } from '../support/duckdb-changes.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { errorOf, type MirrorAtWork, mirrorAtWork, retirement } from '../support/mirror-at-work.ts';
import { column } from '../support/small-content.ts';

const people = sourceSchema([column('id', 'integer', false), column('name', 'string')]);
const FIRST: readonly Row[] = [
  [1, 'one'],
  [2, 'two'],
];
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
const changeWhatIsLoaded: Plan = async ({ course, observed }) => {
  const { digest } = await course.snapshot(course.newest(), observed);
  course.publishRows(THIRD);
  // The first loads of eight tables and the first case come before the load that this builds on.
  const commitNumber = 8 + 2 + 1;
  const loaded = { commitNumber, version: 2, snapshotVersion: 2, snapshotDigest: digest };
  return course.changes({ ...observed, ...loaded });
};

type Fate = readonly [JobResult['kind'], JobResult['kind'], version: number | null];

it('two units of each dataset that are taken at once: the second is judged by what the first has left', async () => {
  const cases: Readonly<Record<string, readonly [Plan, Plan, Fate]>> = {
    retired_loaded_anew: [retire, loadAnew, ['retired', 'committed', 2]],
    loaded_changed_from_that: [load, changeWhatIsLoaded, ['committed', 'committed', 3]],
    loaded_changed: [load, change, ['committed', 'stale-plan', 2]],
    loaded_retired: [load, retire, ['committed', 'stale-plan', 2]],
    changed_loaded: [change, load, ['committed', 'stale-plan', 2]],
    changed_retired: [change, retire, ['committed', 'stale-plan', 2]],
    retired_loaded: [retire, load, ['retired', 'stale-plan', null]],
    retired_changed: [retire, change, ['retired', 'stale-plan', null]],
  };
  const world = await mirrorAtWork();
  const ids = Object.keys(cases);
  const courses = new Map(ids.map((id) => [id, world.published(firstContent(people, FIRST), id)]));
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

describe('what is taken while a window is open', () => {
  /** By this clock opening the mirror takes a second, and so does every look at it: the window stays open for several takes. */
  function slowlyOpened() {
    let nowMs = 0;
    const monotonicMs = () => {
      nowMs += 1_000;
      return nowMs;
    };
    return { ...systemClock, monotonicMs };
  }

  interface Announcement {
    readonly takes: number;
    readonly windows: number;
    readonly outcomes: readonly JobResult[];
  }

  function firstLoad(world: MirrorAtWork, datasetId: string): Promise<WriteJob> {
    const course = world.published(firstContent(people, FIRST), datasetId);
    return course.snapshot(course.newest(), null);
  }

  /** Each list is taken by itself; `onTake` is called with its number, from one on. */
  async function commitTakes(
    { mirror }: MirrorAtWork,
    takes: readonly (readonly WriteJob[])[],
    onTake: (take: number) => void = () => {},
  ): Promise<Announcement> {
    const ready: ValidatedJob[][] = [];
    for (const jobs of takes) {
      const prepared: ValidatedJob[] = [];
      for (const job of jobs) prepared.push(await mirror.validate(job));
      ready.push(prepared);
    }
    const [outcomes, windows]: [JobResult[], string[]] = [[], []];
    let taken = 0;
    observeDurableEffects((name, timestamp) => {
      if (name === 'destination.attach' && timestamp === 'before') windows.push(name);
    });
    onTestFinished(() => observeDurableEffects(() => {}));
    await mirror.commit({
      arrival: () => Promise.resolve(),
      take() {
        const jobs = ready.shift() ?? [];
        if (jobs.length > 0) onTake(++taken);
        return jobs;
      },
      report: (_, outcome) => void outcomes.push(outcome),
    });
    return { takes: taken, windows: windows.length, outcomes };
  }

  it('is committed though one that was taken before fails, which is told when the window has ended', async () => {
    const world = await mirrorAtWork({ clock: slowlyOpened() });
    const broken = await world.loaded(firstContent(people, FIRST), 'broken');
    await world.byHand('DELETE FROM broken WHERE id = 2');
    broken.publishRows(SECOND);
    const changes = await broken.changes(await world.observed('broken'));
    const takes = [[changes, await firstLoad(world, 'a')], [await firstLoad(world, 'b')]];
    const { outcomes, ...reported } = await commitTakes(world, takes);
    expect(reported).toEqual({ takes: 2, windows: 1 });
    expect(outcomes).toMatchObject([
      { kind: 'committed', datasetId: 'a' },
      { kind: 'committed', datasetId: 'b' },
      { kind: 'failed', datasetId: 'broken' },
    ]);
    expect(errorOf(outcomes[2] as JobResult)).toBeInstanceOf(InapplicableChangesError);
    const books = 'SELECT dataset_id, version FROM feed_sync.datasets ORDER BY dataset_id';
    expect(await inMirror(world.folder, books)).toEqual([
      ['a', '1'],
      ['b', '1'],
      ['broken', '1'],
    ]);
  });

  it('F12 fails where it is interrupted; what was taken before is committed, and nothing is told twice', async () => {
    const stop = new AbortController();
    const world = await mirrorAtWork({ clock: slowlyOpened(), signal: stop.signal });
    const takes: WriteJob[][] = [];
    for (const ids of [['a'], ['b', 'c']]) {
      const jobs: WriteJob[] = [];
      for (const id of ids) jobs.push(await firstLoad(world, id));
      takes.push(jobs);
    }
    const { outcomes, windows } = await commitTakes(world, takes, (take) => {
      if (take === 2) stop.abort();
    });
    expect(windows).toBe(1);
    expect(outcomes).toMatchObject([
      { kind: 'committed', datasetId: 'a' },
      { kind: 'failed', datasetId: 'b', error: { name: InterruptedError.name } },
      { kind: 'failed', datasetId: 'c', error: { name: InterruptedError.name } },
    ]);
    expect(await inMirror(world.folder, 'SELECT dataset_id FROM feed_sync.datasets')).toEqual([['a']]);
  });
});
