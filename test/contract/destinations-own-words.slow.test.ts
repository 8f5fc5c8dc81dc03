/** Columns that are called as something in the SQL of a destination: whatever its statements name, they mean their own (F38). */

import { globSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Row, SourceSchema } from '../../fixtures/source/content.ts';
import { present } from '../../src/lib/assert.ts';
import { destinationKinds } from '../support/destination-kinds.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { ALL_HISTORY } from '../support/people.ts';
import { contentFrom } from '../support/repairing.ts';
import { column } from '../support/small-content.ts';

const COLUMNS_OF_A_TABLE = 400;

/** The words in the texts of the sources, without what is inserted there. */
function ownWords(): readonly string[] {
  const words = new Set<string>();
  for (const file of globSync(['src/destination/**/*.ts', 'src/staging/**/*.ts'])) {
    for (const [text] of readFileSync(file, 'utf8').matchAll(/`[^`]*`|'[^'\n]*'/g)) {
      const stated = text.replaceAll(/\$\{[^}]*\}/g, ' ');
      for (const [word] of stated.matchAll(/\b[a-z_][a-z_0-9]*\b/g)) words.add(word);
    }
  }
  // An option of the language in which functions of PostgreSQL are written.
  for (const option of ['variable_conflict', 'use_column']) words.add(option);
  for (const numbered of ['v', 'c', 'h', 'k']) for (const index of [0, 1]) words.add(`${numbered}${index}`);
  words.delete('id');
  return [...words].sort();
}

const WORDS = ownWords();
const PARTS = Array.from({ length: Math.ceil(WORDS.length / COLUMNS_OF_A_TABLE) }, (_, index) =>
  WORDS.slice(index * COLUMNS_OF_A_TABLE, (index + 1) * COLUMNS_OF_A_TABLE),
);

function schemaOf(words: readonly string[]): SourceSchema {
  const [first = ''] = words;
  const columns = words.map((word) => column(word, 'string', word !== first));
  return { ...sourceSchema([column('id', 'integer', false), ...columns]), keyColumns: ['id', first] };
}

describe.each(destinationKinds())('the destination $name', (kind) => {
  it.each(PARTS)('F38 F39 keeps columns that are called %s, %s, %s, …', async (...words) => {
    const [, ...rest] = words;
    const row = (id: number, value: string | null): Row => [
      id,
      'key',
      ...rest.map((word) => (value === null ? null : `${word} ${value}`)),
    ];
    const world = await kind.open(ALL_HISTORY);
    const states = [
      [row(1, 'one'), row(2, 'two'), row(3, 'three')],
      [row(1, 'one'), row(2, 'TWO'), row(4, 'four')],
      [row(2, 'two'), row(4, null), row(5, '')],
    ];
    const [first = []] = states;
    const course = await world.loaded(firstContent(schemaOf(words), first));
    const expectState = async (index: number) => {
      expect(await world.rows()).toEqual(
        present(states[index], 'a state has rows').map((cells) =>
          cells.map((cell) => (cell === null ? null : String(cell))),
        ),
      );
      const reader = await world.reader();
      const [counted] = await reader.count(['parcels'], () => true);
      expect(counted?.table).toMatchObject({ rowCount: 3, hasRecordedChecksum: true });
      await reader.close();
    };
    await expectState(0);
    course.publishRows(present(states[1], 'three states'));
    expect(await world.apply(course)).toMatchObject({
      kind: 'committed',
      committed: { net: { added: 1, changed: 1, removed: 1 } },
    });
    await expectState(1);
    course.publishRows(present(states[2], 'three states'));
    expect(await world.load(course)).toMatchObject({
      kind: 'committed',
      committed: { net: { added: 1, changed: 2, removed: 1 } },
    });
    await expectState(2);
    const reader = await world.reader();
    const commit = (commitNumber: number) => ({ by: 'commit', commitNumber }) as const;
    const differing = await reader.diff('parcels', { from: commit(1), to: commit(3) });
    const changes: string[] = [];
    for await (const { change } of differing.rows) changes.push(change);
    expect(changes).toEqual(['removed', 'removed', 'added', 'added']);
    await reader.close();
    const comparer = await world.comparer();
    const content = await contentFrom(course.newest(), course, world);
    expect(await comparer.compare(await world.observed(), content, () => {})).toMatchObject({
      kind: 'equal',
    });
    await comparer.close();
    const fetched = { bytes: 0, elapsedMs: () => 0 };
    const plannedFrom = await world.observed();
    const back = {
      kind: 'rollback',
      datasetId: 'parcels',
      toCommit: 2,
      version: 2,
      fetched,
      plannedFrom,
    } as const;
    expect(await world.execute(back)).toMatchObject([{ kind: 'committed' }]);
    await expectState(1);
  });
});
