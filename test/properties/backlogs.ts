/** Random tables and the versions that follow: which rows they are given, how that is written, and what has to come of it. */

import fc from 'fast-check';
import type { Cell, ColumnType, Row, SourceColumn, SourceSchema } from '../../fixtures/source/content.ts';
import { columnsOf } from '../../fixtures/source/wire.ts';
import { COLUMN_TYPES, type Counts } from '../../src/model/records.ts';
import { textOfCell } from '../support/cell-text.ts';
import { sourceSchema } from '../support/duckdb-changes.ts';
import { KEY_VALUES, VALUES, type WrittenValue } from './change-values.ts';

type Texts = readonly (string | null)[];

export interface Backlog {
  readonly schema: SourceSchema;
  readonly rows: readonly Row[];
  readonly versions: readonly WrittenVersion[];
}

export interface WrittenVersion {
  /** Texts of changes, a list for each page. */
  readonly pages: readonly (readonly string[])[];
  readonly listed: Counts;
  /** In whatever order: a row that is there, or a key that is gone. */
  readonly happened: readonly Happened[];
  /** Whether the service states the number of rows. */
  readonly statesRows: boolean;
}

interface Happened {
  /** The values of the key, in the order of the key columns, as text. */
  readonly key: string;
  /** Null: it is gone. */
  readonly row: Texts | null;
}

/** Names that are equal but for case, that SQL and JavaScript keep for themselves, and that the program uses inside. */
const NAMES = [
  'id',
  'ID',
  'Id',
  'iD_2',
  'é',
  'É',
  'rowid',
  'ROWID',
  'select',
  '__proto__',
  'constructor',
  'op',
  'row',
  'key',
  'present',
  'page',
  'line',
  'step',
  'names',
  'c0',
  'C0',
  'a.b',
  'a"b',
  "it's",
  ' ',
  'feed-sync: net',
  '$ref',
  'x\ny',
];

const name = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...NAMES) },
  { weight: 1, arbitrary: fc.string({ unit: 'grapheme', minLength: 1 }) },
);

const schema = fc
  .uniqueArray(
    name.filter((text) => !text.includes('\0')),
    { minLength: 1, maxLength: 7 },
  )
  .chain((names) =>
    fc.record({
      columns: fc.tuple(...names.map((text) => column(text))),
      keyColumns: fc.shuffledSubarray(names, { minLength: 1, maxLength: Math.min(3, names.length) }),
      envelope: fc.nat(2),
    }),
  )
  .map(({ columns, keyColumns, envelope }) => {
    const nullable = columns.map((each) => ({ ...each, nullable: !keyColumns.includes(each.name) }));
    const ofSource = Math.max(1, columns.length - envelope);
    return sourceSchema(nullable.slice(0, ofSource), {
      keyColumns,
      envelopeColumns: nullable.slice(ofSource),
    });
  });

function column(text: string): fc.Arbitrary<SourceColumn> {
  return fc.constantFrom(...COLUMN_TYPES).map((type) => ({ name: text, type, nullable: true }));
}

/** How a cell is written: by its first, second, … spelling, as a null, or not at all. */
interface Given {
  readonly value: WrittenValue;
  readonly how: 'value' | 'null' | 'absent';
  readonly spelling: number;
}

const how = fc.constantFrom(
  'value' as const,
  'value' as const,
  'value' as const,
  'null' as const,
  'absent' as const,
);

function given(type: ColumnType): fc.Arbitrary<Given> {
  return fc.record({ value: VALUES[type], how, spelling: fc.nat(9) });
}

export const backlogs: fc.Arbitrary<Backlog> = schema.chain((table) => {
  const columns = columnsOf(table);
  const needsFile = table.envelopeColumns.length > 0 || columns.some(({ type }) => type === 'geometry');
  const keyTypes = table.keyColumns.map((key) => columns.find((each) => each.name === key)?.type ?? 'string');
  const pool = fc.array(fc.tuple(...keyTypes.map((type) => KEY_VALUES[type])), {
    minLength: 1,
    maxLength: 5,
  });
  return pool.chain((keys) => {
    const cells = fc.tuple(...columns.map(({ type }) => given(type)));
    const row = fc.record({ key: fc.nat(keys.length - 1), cells });
    const change = fc.record({
      key: fc.nat(keys.length - 1),
      spelling: fc.nat(9),
      op: fc.constantFrom('added', 'changed', 'removed', 'removed'),
      cells,
      removal: fc.constantFrom('key' as const, 'row' as const, 'null and row' as const),
      ends: fc.boolean(),
    });
    const version = fc.record({ changes: fc.array(change, { maxLength: 7 }), statesRows: fc.boolean() });
    return fc
      .record({
        // Without a row there is no file, which makes envelope columns and says where geometries are.
        rows: fc.array(row, { minLength: needsFile ? 1 : 0, maxLength: 5 }),
        versions: fc.array(version, { minLength: 1, maxLength: 8 }),
      })
      .map(({ rows, versions }) => new Writer(table, keys).backlog(rows, versions));
  });
});

interface Change {
  readonly key: number;
  readonly spelling: number;
  readonly op: string;
  readonly cells: readonly Given[];
  readonly removal: 'key' | 'row' | 'null and row';
  readonly ends: boolean;
}

/** Writes what was drawn as the service would, leaving out what it may not say: a key with two rows in one version. */
class Writer {
  readonly #schema: SourceSchema;
  readonly #columns: readonly SourceColumn[];
  readonly #keys: readonly (readonly WrittenValue[])[];

  constructor(table: SourceSchema, keys: readonly (readonly WrittenValue[])[]) {
    this.#schema = table;
    this.#columns = columnsOf(table);
    this.#keys = keys;
  }

  backlog(
    rows: readonly { readonly key: number; readonly cells: readonly Given[] }[],
    versions: readonly { readonly changes: readonly Change[]; readonly statesRows: boolean }[],
  ): Backlog {
    const first = new Map(rows.map((row) => [this.#keyText(row.key), this.#cellsOf(row.key, row.cells)]));
    return {
      schema: this.#schema,
      rows: [...first.values()],
      versions: versions.map(({ changes, statesRows }) => ({ ...this.#version(changes), statesRows })),
    };
  }

  #version(drawn: readonly Change[]): Omit<WrittenVersion, 'statesRows'> {
    const withRow = new Set<string>();
    const changes = drawn.filter(({ op, key }) => {
      const text = this.#keyText(key);
      if (op === 'removed') return true;
      return withRow.has(text) ? false : withRow.add(text);
    });
    const pages: string[][] = [[]];
    for (const change of changes) {
      pages.at(-1)?.push(this.#written(change));
      if (change.ends) pages.push([]);
    }
    const count = (op: string): number => changes.filter((change) => change.op === op).length;
    return {
      pages,
      listed: { added: count('added'), changed: count('changed'), removed: count('removed') },
      happened: changes.map(({ op, key, cells }) => ({
        key: this.#keyText(key),
        row: op === 'removed' ? null : this.#texts(this.#cellsOf(key, cells)),
      })),
    };
  }

  #written({ op, key, spelling, cells, removal }: Change): string {
    if (op !== 'removed') return `{"op":"${op}","row":{${this.#members(key, spelling, cells)}}}`;
    const keyText = `{${this.#keyMembers(key, spelling)}}`;
    if (removal === 'key') return `{"op":"removed","key":${keyText}}`;
    const isNull = removal === 'row' ? '' : '"key":null,';
    // The other values in the row of a removal are ignored.
    return `{"op":"removed",${isNull}"row":{${this.#keyMembers(key, spelling)},"left over":[1]}}`;
  }

  #members(key: number, spelling: number, cells: readonly Given[]): string {
    const others = this.#columns.flatMap((each, index) => {
      if (this.#schema.keyColumns.includes(each.name)) return [];
      const cell = cells[index];
      if (cell === undefined || (cell.how === 'absent' && !this.#isEnvelope(each))) return [];
      return [member(each.name, cell.how === 'value' ? spelled(cell.value, cell.spelling) : 'null')];
    });
    const ofKey = this.#keyMembers(key, spelling);
    return (spelling % 2 === 0 ? [ofKey, ...others] : [...others.toReversed(), ofKey]).join();
  }

  #keyMembers(key: number, spelling: number): string {
    const values = this.#keys[key] ?? [];
    return this.#schema.keyColumns
      .map((text, index) => member(text, spelled(values[index], spelling)))
      .join();
  }

  /** The row that comes of it. */
  #cellsOf(key: number, cells: readonly Given[]): Row {
    return this.#columns.map((each, index): Cell => {
      const inKey = this.#schema.keyColumns.indexOf(each.name);
      if (inKey >= 0) return this.#keys[key]?.[inKey]?.cell ?? null;
      const cell = cells[index];
      return cell?.how === 'value' ? cell.value.cell : null;
    });
  }

  #isEnvelope(each: SourceColumn): boolean {
    return this.#schema.envelopeColumns.some(({ name: text }) => text === each.name);
  }

  #texts(row: Row): Texts {
    return this.#columns.map(({ type }, index) => textOfCell(type, row[index] ?? null));
  }

  #keyText(key: number): string {
    const types = this.#schema.keyColumns.map(
      (text) => this.#columns.find((each) => each.name === text)?.type ?? 'string',
    );
    return JSON.stringify(
      (this.#keys[key] ?? []).map(({ cell }, index) => textOfCell(types[index] ?? 'string', cell)),
    );
  }
}

function member(text: string, value: string): string {
  return `${JSON.stringify(text)}:${value}`;
}

function spelled(value: WrittenValue | undefined, spelling: number): string {
  const spellings = value?.spellings ?? ['null'];
  return spellings[spelling % spellings.length] ?? 'null';
}
