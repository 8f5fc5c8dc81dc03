/** A destination that has a past of every kind: undo logs, a frozen table and an archived one. */

import type { ComparedPast } from '../../src/destination/past-tables.ts';
import type { DestinationWorld } from './destination-kinds.ts';
import { firstContent } from './duckdb-changes.ts';
import type { DestinationAtWork } from './mirror-at-work.ts';
import { OWNERS, PEOPLE } from './people.ts';

/** Makes a live log of parcels, a frozen table with its log, and an archived table of roads with its log. */
export async function makePastOfEveryKind(world: DestinationAtWork): Promise<void> {
  for (const datasetId of ['parcels', 'roads']) {
    const course = await world.loaded(firstContent(PEOPLE, [[1, 'one']]), datasetId);
    course.publishRows([[1, 'uno']]);
    await world.apply(course);
    if (datasetId === 'roads') await world.retire(course, 'archive');
    if (datasetId === 'roads') continue;
    course.publish(firstContent(OWNERS, [[1, 'Ann']]));
    await world.load(course);
    course.publishRows([[1, 'Bob']]);
    await world.apply(course);
  }
}

/** What `statesOf` gives of this past in a mirror as long as nobody has altered it. */
export const EQUAL_PAST = equalPast({ historic: (name) => `history.${name}`, archive: 'archived' });

/** The same of any destination. */
export function equalPast({ historic, archive }: Pick<DestinationWorld, 'historic' | 'archive'>) {
  return [
    [`frozen ${historic('parcels__3')}`, 'equal'],
    ...['parcels__3_log', 'parcels']
      .map(historic)
      .toSorted()
      .map((name) => [`log ${name}`, 'equal']),
    [`archived ${archive}.roads`, 'equal'],
    [`log ${historic('roads__7_log')}`, 'equal'],
  ];
}

/** Each table with its state, without the time in the name of an archived one. */
export function statesOf({ compared }: ComparedPast): readonly string[][] {
  return compared.map(({ kind, schema, name, state }) => [
    `${kind} ${schema}.${name.replace(/__2_.*/, '')}`,
    state,
  ]);
}
