/** The table of people that most tests of a destination publish. */

import type { Row } from '../../fixtures/source/content.ts';
import type { HistoryOptions } from '../../src/destination/catalog/undo-logs.ts';
import { sourceSchema } from './duckdb-changes.ts';
import { column } from './small-content.ts';

export const PEOPLE = sourceSchema([column('id', 'integer', false), column('name', 'string')]);

/** Version 2 of the schema, with another column in the place of `name`. */
export const OWNERS = sourceSchema([column('id', 'integer', false), column('owner', 'string')], {
  schemaVersion: '2',
});

export const THREE_PEOPLE: readonly Row[] = [
  [1, 'one'],
  [2, 'two'],
  [3, 'three'],
];

/** History of every table, for ever. */
export const ALL_HISTORY: HistoryOptions = { keeps: () => true, keepMs: Number.POSITIVE_INFINITY };
