/** Commits of a table of people that a gate judges, in any destination. */

import type { Row } from '../../fixtures/source/content.ts';
import type { JobResult } from '../../src/destination/destination.ts';
import { present } from '../../src/lib/assert.ts';
import { type Gate, type GateLimits, type JudgedCommit, NO_LIMITS } from '../../src/model/gate.ts';
import { type PublishedCourse, sourceSchema } from './duckdb-changes.ts';
import type { DestinationAtWork } from './mirror-at-work.ts';
import { PEOPLE } from './people.ts';
import { column } from './small-content.ts';

export const AGED_PEOPLE = sourceSchema([...PEOPLE.columns, column('age', 'integer')]);

/** `count` people of 30 with consecutive keys. */
export const rowsOf = (count: number, from = 1): readonly Row[] =>
  Array.from({ length: count }, (_, index) => [from + index, `name ${from + index}`, 30]);

export const NONE_REMOVED: GateLimits = { ...NO_LIMITS, removedRows: { rows: 0, share: null } };
export const NONE_CHANGED: GateLimits = { ...NO_LIMITS, changedRows: { rows: 0, share: null } };

export const gate = (limits: GateLimits, approvedDigest: string | null = null): Gate => ({
  limits,
  approvedDigest,
});

/** Loads the newest version in the place of the table. */
export async function reload(
  world: DestinationAtWork,
  course: PublishedCourse,
  by: Gate,
): Promise<JobResult> {
  const job = await course.snapshot(course.newest(), await world.observed());
  return present((await world.execute({ ...job, gate: by }))[0], 'a job has a result');
}

export const apply = (world: DestinationAtWork, course: PublishedCourse, by: Gate): Promise<JobResult> =>
  world.apply(course, { gate: by });

/** The judgement of a commit that waits. @throws Error where the result is another one. */
export function judged(result: JobResult): JudgedCommit {
  if (result.kind !== 'awaiting') throw new Error(`it should wait, but was ${JSON.stringify(result)}`);
  return result.judged;
}
