/**
 * Whatever is committed to a table with history, by changes, reloads, other columns and rollbacks: every state that its logs know
 * is the one that the table had, and a rollback brings back exactly the state of its commit. Undoing everything gives the first table.
 */

import fc from 'fast-check';
import { describe, expect } from 'vitest';
import type { Content, Row } from '../../fixtures/source/content.ts';
import { difference } from '../../fixtures/source/diff.ts';
import type { JobResult } from '../../src/destination/destination.ts';
import type { ObservedTable } from '../../src/model/write-jobs.ts';
import { type DestinationWorld, destinationKinds } from '../support/destination-kinds.ts';
import { sourceSchema } from '../support/duckdb-changes.ts';
import { errorOf } from '../support/mirror-at-work.ts';
import { ALL_HISTORY } from '../support/people.ts';
import { column, smallContent } from '../support/small-content.ts';
import { property } from './property.ts';

type Step =
  | { readonly kind: 'changes' | 'reload'; readonly rows: readonly Row[] }
  /** The other column gets another name: a breaking schema. */
  | { readonly kind: 'columns'; readonly rows: readonly Row[] }
  /** The place of the commit among those before. */
  | { readonly kind: 'rollback'; readonly place: number };

const rows = fc
  .uniqueArray(
    fc.tuple(fc.integer({ min: 0, max: 9 }), fc.option(fc.constantFrom('a', 'b', '', 'ä'), { nil: null })),
    { selector: ([id]) => id, maxLength: 8 },
  )
  .map((list): readonly Row[] => list.map(([id, value]) => [id, value]));

const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: rows.map((list): Step => ({ kind: 'changes', rows: list })) },
    { weight: 2, arbitrary: rows.map((list): Step => ({ kind: 'reload', rows: list })) },
    { weight: 1, arbitrary: rows.map((list): Step => ({ kind: 'columns', rows: list })) },
    { weight: 3, arbitrary: fc.nat({ max: 20 }).map((place): Step => ({ kind: 'rollback', place })) },
  ),
  { minLength: 1, maxLength: 7 },
);

interface Left {
  readonly version: number;
  readonly schemaVersion: string | null;
  readonly rows: unknown;
}

class History {
  readonly #world: DestinationWorld;
  /** What each commit left: the first that of commit 1. */
  readonly left: Left[] = [];

  constructor(world: DestinationWorld) {
    this.#world = world;
  }

  async note(result: JobResult): Promise<void> {
    if (result.kind !== 'committed') throw errorOf(result);
    expect(result.committed.observed).toEqual(await this.#world.observed());
    this.left.push(await this.now());
  }

  async now(): Promise<Left> {
    const { version, schemaVersion } = await this.#world.observed();
    return { version, schemaVersion, rows: await this.#world.rows() };
  }

  async undoAll(): Promise<void> {
    for (let commit = this.left.length; commit >= 1; commit -= 1) {
      const result = await this.rollBack(commit);
      if (result !== null && result.kind !== 'committed') throw errorOf(result);
      expect(await this.now(), `commit ${commit}`).toEqual(this.left[commit - 1]);
    }
  }

  async goBack(place: number): Promise<void> {
    const toCommit = (place % this.left.length) + 1;
    const result = await this.rollBack(toCommit);
    if (result === null) return;
    await this.note(result);
    expect(this.left.at(-1)).toEqual(this.left[toCommit - 1]);
  }

  /** Returns null where the table has that state already. */
  async rollBack(toCommit: number): Promise<JobResult | null> {
    const plannedFrom: ObservedTable = await this.#world.observed();
    const { version = 0 } = this.left[toCommit - 1] ?? {};
    const fetched = { bytes: 0, elapsedMs: () => 0 };
    const job = { kind: 'rollback', datasetId: 'parcels', toCommit, version, fetched, plannedFrom } as const;
    const [result] = await this.#world.execute(job);
    if (result === undefined) throw new Error('a job has a result');
    const isThere =
      result.kind === 'failed' && result.error.message.includes('there is nothing to roll back');
    return isThere ? null : result;
  }
}

/** The columns of the `names`-th breaking schema. */
function contentOf(names: number, list: readonly Row[], before: readonly Row[] | null): Content {
  const schema = sourceSchema([column('id', 'integer', false), column(`value_${names}`, 'string')], {
    schemaVersion: String(names),
  });
  return smallContent(list, before === null ? null : difference(schema, before, list), schema);
}

/** Commits the steps, and goes back through all states that they left. */
async function play(world: DestinationWorld, first: readonly Row[], all: readonly Step[]): Promise<void> {
  const history = new History(world);
  let names = 1;
  let published = first;
  const course = world.published(contentOf(names, first, null));
  await history.note(await world.load(course));
  for (const step of all) {
    if (step.kind === 'rollback') {
      await history.goBack(step.place);
      continue;
    }
    await world.destination.unpin('parcels');
    const isOther = step.kind === 'columns';
    if (isOther) names += 1;
    course.publish(contentOf(names, step.rows, isOther ? null : published));
    published = step.rows;
    // Changes lead on from the version before alone.
    const isLedByChanges =
      step.kind === 'changes' && history.left.at(-1)?.version === course.newest().version - 1;
    await history.note(isLedByChanges ? await world.apply(course) : await world.load(course));
  }
  await history.undoAll();
}

describe.each(destinationKinds())('rollbacks in $name', (kind) => {
  property(
    'F69 shows and restores every earlier state of a table, past reloads, other columns and rollbacks',
    kind.name === 'DuckDB' ? 12 : 8,
    fc.asyncProperty(rows, steps, async (first, all) => play(await kind.open(ALL_HISTORY), first, all)),
  );
});
