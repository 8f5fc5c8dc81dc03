/** F34 over the wire: schemas that change in every way, with and without a word in the log, by both settings. */

import { expect, it } from 'vitest';
import type { Row, SourceSchema } from '../../fixtures/source/content.ts';
import { expectNewest } from '../support/oracle.ts';
import { withRealMirror } from '../support/served-world.ts';
import { column, numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';

const ROWS = numberedRows(3);

/** What the schema becomes, and the rows with it; the row that is changed is the last one. */
const CHANGES: readonly (readonly [string, Partial<SourceSchema>, (row: Row) => Row])[] = [
  [
    'a column more',
    { columns: [...SMALL_SCHEMA.columns, column('use', 'string')] },
    (row) => [...row, 'farm'],
  ],
  ['a column less', { columns: SMALL_SCHEMA.columns.slice(0, 1) }, ([id = null]) => [id]],
  [
    'a column of another type',
    { columns: [column('id', 'string', false), column('amount', 'number')] },
    ([id = null, amount]) => [id, Number(amount) + 0.5],
  ],
  ['another key', { keyColumns: ['id', 'amount'] }, (row) => row],
  ['no key', { keyColumns: [] }, (row) => row],
];

it.each(['reload', 'alter'] as const)(
  'F34 mirrors schemas that change in every way, with and without an event, with schemaChanges: %s',
  async (schemaChanges) => {
    const world = await withRealMirror();
    Object.assign(world.parts.choices, { schemaChanges });
    const { publisher } = world.feed;
    const kinds = CHANGES.flatMap((change) => [true, false].map((announce) => ({ change, announce })));
    const ids = kinds.map((_, index) => `changing-${index}`);
    publisher.subscribe({ subscriptionId: 'sub_3', datasetIds: ids });
    for (const datasetId of ids) {
      publisher.addDataset({ datasetId });
      publisher.publish(datasetId, smallContent(ROWS));
    }
    await world.catchUp();
    for (const [index, { change, announce }] of kinds.entries()) {
      const [, changed, mapRow] = change;
      const rows = ROWS.map(mapRow);
      const changes = rows.map((row) => ({ op: 'changed' as const, row }));
      const schema = { ...SMALL_SCHEMA, ...changed, schemaVersion: '2' };
      publisher.publish(`changing-${index}`, smallContent(rows, changes, schema), { announce });
    }
    expect(await world.catchUp()).toMatchObject({ incidents: [], suspensions: [] });
    await expectNewest(world);
  },
);
