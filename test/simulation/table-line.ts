/**
 * The versions of one dataset as a history publishes them: the generator's table, evolved by the schema changes so
 * far, of which some rows are left out, and the changes from one version to the next, found by comparison.
 */

import type { Cell, Change, Content, Row, SourceSchema } from '../../fixtures/source/content.ts';
import { difference } from '../../fixtures/source/diff.ts';
import type { GeneratedDataset } from '../../fixtures/source/generate.ts';
import { type Random, randomFrom } from '../../fixtures/source/random.ts';
import { columnsOf } from '../../fixtures/source/wire.ts';

const SHARE_OF_ROWS_LEFT_OUT = 0.2;
const LARGEST_SEED = 2 ** 32 - 1;

/** Which rows of the generator's table a version has. */
export type Rows = 'most' | 'none' | 'the same';

export class TableLine {
  readonly source: GeneratedDataset;
  #table: Content;
  #keep: (index: number) => boolean;
  /** The whole table that a version was made of. */
  readonly #tableOf = new WeakMap<Content, Content>();

  constructor(source: GeneratedDataset) {
    this.source = source;
    this.#table = source.initial();
    this.#keep = () => true;
  }

  get schema(): SourceSchema {
    return this.#table.schema;
  }

  /** The key columns of the generator: no step retypes or removes one, so every set of them and others is a key. */
  get ownKey(): readonly string[] {
    return this.source.initial().schema.keyColumns;
  }

  /** The schema is changed: what is published next has it. */
  evolve(evolution: (table: Content) => Content): void {
    this.#table = evolution(this.#table);
  }

  /** The whole table starts again, under the schema of the generator. */
  startAgain(random: Random): void {
    this.#table = this.source.next(this.source.initial(), seedOf(random));
    this.#keep = keepMost(random);
  }

  /** What came after this version was taken back: the schema is that of then. */
  goBackTo(content: Content): void {
    this.#table = this.#tableOf.get(content) ?? this.#table;
  }

  /** What is published next; `previous` is what was published last. */
  next(previous: Content | null, rows: Rows, random: Random): Content {
    if (rows !== 'the same') {
      this.#table = this.source.next(this.#table, seedOf(random));
      this.#keep = rows === 'none' ? () => false : keepMost(random);
    }
    const content = this.#content(previous);
    this.#tableOf.set(content, this.#table);
    return content;
  }

  #content(previous: Content | null): Content {
    const { schema } = this.#table;
    const keep = this.#keep;
    const kept = [...this.#table.rows()].filter((_, index) => keep(index));
    return {
      schema,
      rowCount: kept.length,
      rows: () => kept,
      changes: changesBetween(previous, schema, kept),
    };
  }
}

/** Every row that differs or got a value; null where rows cannot be told apart or the schema change is breaking. */
function changesBetween(
  previous: Content | null,
  schema: SourceSchema,
  rows: readonly Row[],
): readonly Change[] | null {
  if (previous === null || schema.keyColumns.length === 0) return null;
  if (schema.keyColumns.join('\n') !== previous.schema.keyColumns.join('\n')) return null;
  const before = columnsOf(previous.schema);
  const positions = columnsOf(schema).map(({ name, type }) =>
    before.findIndex((column) => column.name === name && column.type === type),
  );
  if (positions.filter((position) => position >= 0).length < before.length) return null;
  const widened = (row: Row): Row => positions.map((position): Cell => row[position] ?? null);
  return difference(schema, [...previous.rows()].map(widened), rows);
}

function keepMost(random: Random): (index: number) => boolean {
  const seed = seedOf(random);
  return (index) => !randomFrom(seed, index).chance(SHARE_OF_ROWS_LEFT_OUT);
}

function seedOf(random: Random): number {
  return random.integer(0, LARGEST_SEED);
}
