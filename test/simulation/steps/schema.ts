/** Schema changes of every kind, with and without events that announce them. */

import type { Cell, Content, SourceColumn } from '../../../fixtures/source/content.ts';
import {
  withAddedColumn,
  withKeyColumns,
  withNullableColumn,
  withRemovedColumn,
  withRetypedColumn,
} from '../../../fixtures/source/evolve.ts';
import type { Random } from '../../../fixtures/source/random.ts';
import type { Step } from '../step.ts';
import type { TableLine } from '../table-line.ts';
import type { World } from '../world.ts';

/** A change of the schema; null where the dataset cannot have it. */
type Evolution = (line: TableLine, random: Random) => ((table: Content) => Content) | null;

const RETYPABLE: readonly SourceColumn['type'][] = ['integer', 'number', 'boolean', 'date'];

const EVOLUTIONS: Readonly<Record<string, Evolution>> = {
  'a column added': addColumn,
  'two columns added': (line, random) => {
    const [first, second] = [addColumn(line, random), addColumn(line, random)];
    return (table) => second(first(table));
  },
  'a column made nullable': (line, random) => {
    const column = pick(
      freeColumns(line).filter(({ nullable }) => !nullable),
      random,
    );
    return column === null ? null : (table) => withNullableColumn(table, column.name);
  },
  'a column removed': (line, random) => {
    const column = pick(freeColumns(line), random);
    return column === null ? null : (table) => withRemovedColumn(table, column.name);
  },
  'a column retyped': (line, random) => {
    const column = pick(
      freeColumns(line).filter(({ type }) => RETYPABLE.includes(type)),
      random,
    );
    const toText = (cell: Cell): Cell => (cell === null ? null : String(cell));
    return column === null ? null : (table) => withRetypedColumn(table, column.name, 'string', toText);
  },
  'a column added and one removed': (line, random) => {
    const column = pick(freeColumns(line), random);
    const add = addColumn(line, random);
    return column === null ? null : (table) => add(withRemovedColumn(table, column.name));
  },
  'other key columns': (line, random) => {
    const further = pick(
      freeColumns(line).filter(({ nullable, type }) => !nullable && (type === 'string' || type === 'date')),
      random,
    );
    const keys = [
      line.ownKey,
      line.ownKey.toReversed(),
      [...line.ownKey, ...(further === null ? [] : [further.name])],
    ];
    const others = keys.filter((key) => key.join('\n') !== line.schema.keyColumns.join('\n'));
    const key = pick(others, random);
    return key === null ? null : (table) => withKeyColumns(table, key);
  },
  'no key columns': (line) => {
    return line.schema.keyColumns.length === 0 ? null : (table) => withKeyColumns(table, []);
  },
};

export const schemaSteps: readonly Step[] = Object.entries(EVOLUTIONS).flatMap(([name, evolution]) => [
  schemaStep(`schema: ${name}`, 2, evolution, true),
  schemaStep(`schema: ${name}, without an event`, 1, evolution, false),
]);

function schemaStep(name: string, weight: number, evolution: Evolution, announce: boolean): Step {
  return {
    name,
    weight,
    applies: (world) => able(world, evolution).length > 0,
    act: (world) => {
      const datasetId = world.random.pick(able(world, evolution));
      const line = world.line(datasetId);
      const evolve = evolution(line, world.random);
      if (evolve !== null) line.evolve(evolve);
      const rows = world.random.pick(['most', 'the same'] as const);
      return world.publish(datasetId, rows, { announce, ...resyncClaim(world) });
    },
  };
}

/** Rarely the version does not say that it takes a resync: the schemas say it. */
function resyncClaim({ random }: World): { readonly claims?: { readonly resyncRequired: false } } {
  return random.chance(0.2) ? { claims: { resyncRequired: false } } : {};
}

function able(world: World, evolution: Evolution): readonly string[] {
  const { random } = world;
  return world.members.filter((datasetId) => evolution(world.line(datasetId), random) !== null);
}

/** Names that the SQL of a destination gives to something of its own, and undo logs to their columns. */
const OWN_NAMES = [
  'place',
  'operation',
  'staged',
  'hashes',
  'v0',
  's',
  't',
  'rows',
  '_commit',
  '_version',
] as const;
/** So many columns that are added have such a name: one in so many. */
const ONE_OWN_NAME_IN = 4;

function addColumn({ schema }: TableLine, random: Random): (table: Content) => Content {
  const number = random.integer(0, 1_000_000);
  const type = random.pick(['string', 'integer', 'number', 'timestamp', 'json', 'geometry'] as const);
  const share = random.pick([0, 0.5, 1]);
  const isFilled = (row: readonly Cell[]): boolean => share * 100 > hashOf(row[0] ?? null);
  return (table) => {
    const name = nameOf(number, schema.schemaVersion, table);
    const column: SourceColumn = { name, type, nullable: true, description: `Added as ${type}.` };
    return withAddedColumn(table, column, (row) =>
      isFilled(row) ? sampleOf(type, hashOf(row[0] ?? null)) : null,
    );
  };
}

/** A name of a destination's own, unless the table has it; else one that no column had before. */
function nameOf(number: number, schemaVersion: string, { schema: { columns } }: Content): string {
  const own = OWN_NAMES[Math.trunc(number / ONE_OWN_NAME_IN) % OWN_NAMES.length];
  const isOwn = number % ONE_OWN_NAME_IN === 0 && columns.every(({ name }) => name !== own);
  return isOwn && own !== undefined ? own : `added_${schemaVersion}_${number}`;
}

function sampleOf(type: SourceColumn['type'], number: number): Cell {
  switch (type) {
    case 'integer':
      return 9_007_199_254_740_993n + BigInt(number);
    case 'number':
      return number / 7;
    case 'timestamp':
      return `2026-01-01T00:00:${String(number % 60).padStart(2, '0')}.000001Z`;
    case 'json':
      return { json: { number, nothing: null } };
    case 'geometry':
      return { type: 'Point', coordinates: [number, number / 7] };
    default:
      return `value ${number}`;
  }
}

/** From 0 to 99, by the text of the cell. */
function hashOf(cell: Cell): number {
  let hash = 7;
  for (const character of String(cell)) hash = (hash * 31 + (character.codePointAt(0) ?? 0)) % 9_973;
  return hash % 100;
}

/** Columns that no key has, now or at the beginning. */
function freeColumns(line: TableLine): readonly SourceColumn[] {
  const keys = new Set([...line.schema.keyColumns, ...line.ownKey]);
  return line.schema.columns.filter(({ name }) => !keys.has(name));
}

function pick<Element>(from: readonly Element[], random: Random): Element | null {
  return from.length === 0 ? null : random.pick(from);
}
