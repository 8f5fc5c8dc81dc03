/**
 * Maps the rows of a table to objects. A column has the name of its field in snake case, and one of the forms below.
 * Numbers are exact to 64 bits on the way in and out. Texts for people are cut to a limit, ids are kept whole or refused.
 */

import Database from 'better-sqlite3';
import type { z } from 'zod';
import { ContractViolationError } from '../../model/errors.ts';

type Stored = string | bigint | null;

/** The form in which a column stores the values of a field. `field` names the value in an error. */
export interface Column<T> {
  readonly write: (value: T, field: string) => Stored;
  /** Throws where the form was never written. */
  readonly read: (stored: Stored) => T;
}

/** A text that this program wrote, or that was checked before. */
export const exactText: Column<string> = { write: (value) => value, read: asText };

/** A text for people, which is cut to a limit. */
export const shortText: Column<string> = { write: cut, read: asText };

/** An id is kept whole or refused with a ContractViolationError. */
export const id: Column<string> = { write: whole, read: asText };

export const integer: Column<number> = { write: BigInt, read: (stored) => Number(asInteger(stored)) };

export const eventNumber: Column<bigint> = { write: (value) => value, read: asInteger };

export const flag: Column<boolean> = {
  write: (value) => (value ? 1n : 0n),
  read: (stored) => asInteger(stored) === 1n,
};

export const time: Column<Date> = {
  write: (value) => value.toISOString(),
  read(stored) {
    const read = new Date(asText(stored));
    if (Number.isNaN(read.getTime())) throw new RangeError('Invalid time value');
    return read;
  },
};

/** One of the given words. */
export function oneOf<Word extends string>(...words: readonly Word[]): Column<Word> {
  return {
    write: (value) => value,
    read(stored) {
      const word = words.find((each) => each === stored);
      if (word === undefined) throw new RangeError(`${String(stored)} is none of ${words.join(', ')}`);
      return word;
    },
  };
}

/** A value of the given shape, as JSON. */
export function json<T>(shape: z.ZodType<T>): Column<T> {
  return {
    write: (value) => JSON.stringify(value),
    read: (stored) => shape.parse(JSON.parse(asText(stored))),
  };
}

/** Of a page that lies in the place of another one SQLite returns values of other types than the columns have. */
function asText(stored: Stored): string {
  if (typeof stored !== 'string') throw new TypeError(`${String(stored)} is not a text`);
  return stored;
}

function asInteger(stored: Stored): bigint {
  if (typeof stored !== 'bigint') throw new TypeError(`${String(stored)} is not an integer`);
  return stored;
}

export function orNull<T>({ write, read }: Column<T>): Column<T | null> {
  return {
    write: (value, field) => (value === null ? null : write(value, field)),
    read: (stored) => (stored === null ? null : read(stored)),
  };
}

type Columns<Row> = { readonly [Field in keyof Row]: Column<Row[Field]> };

/** Other expressions than the given value for the fields of a row that is there already. */
type Otherwise<Row> = { readonly [Field in keyof Row]?: string };

export interface Table<Row> {
  /** Prepares the reading of rows; `clause` follows FROM. */
  select(clause?: string): (...parameters: readonly (string | number)[]) => readonly Row[];
  /** Prepares the writing of the given fields, in place of a row with the same key. */
  put<Given extends keyof Row>(
    given: readonly Given[],
    otherwise?: Otherwise<Row>,
  ): (row: Pick<Row, Given>) => void;
  /** Prepares the writing of all fields. */
  putAll(): (row: Row) => void;
}

export function table<Row>(database: Database.Database, name: string, columns: Columns<Row>): Table<Row> {
  const fields = Object.keys(columns) as (keyof Row & string)[];
  const described = database.pragma(`table_info(${name})`) as readonly { name: string; pk: number }[];
  const keys = new Set(described.filter(({ pk }) => pk > 0).map((column) => column.name));
  const readCell = (field: keyof Row & string, stored: Stored): Row[keyof Row] => {
    try {
      return columns[field].read(stored);
    } catch (error) {
      // SQLite checks the types of values, and not what is in a text.
      const what = `${name}.${nameOf(field)} holds what was never written: ${String(error)}`;
      throw new Database.SqliteError(what, 'SQLITE_CORRUPT');
    }
  };
  const put: Table<Row>['put'] = (given, otherwise = {}) => {
    const expressions = new Map<PropertyKey, string>(
      given.map((field) => [field, `excluded.${nameOf(field)}`]),
    );
    for (const [field, expression] of Object.entries(otherwise)) expressions.set(field, String(expression));
    // SQLite writes no page for a row that stays as it is, but it does where a key is set, even to the same value.
    const set = [...expressions]
      .filter(([field]) => !keys.has(nameOf(field)))
      .map(([field, expression]) => `${nameOf(field)} = ${expression}`);
    const action = set.length === 0 ? 'NOTHING' : `UPDATE SET ${set}`;
    const statement = database.prepare<Stored[]>(
      `INSERT INTO ${name} (${given.map(nameOf)}) VALUES (${given.map(() => '?')})
       ON CONFLICT DO ${action}`,
    );
    return (row) => {
      statement.run(...given.map((field) => columns[field].write(row[field], String(field))));
    };
  };
  return {
    put,
    putAll: () => put(fields),
    select(clause = '') {
      const statement = database
        .prepare<(string | number)[], Stored[]>(`SELECT ${fields.map(nameOf)} FROM ${name} ${clause}`)
        .raw()
        .safeIntegers();
      const rowOf = (stored: readonly Stored[]): Row => {
        const values = fields.map((field, index) => [field, readCell(field, stored[index] ?? null)]);
        return Object.fromEntries(values) as Row;
      };
      return (...parameters) => statement.all(...parameters).map(rowOf);
    },
  };
}

/** Returns the column's name: `dataset_id` of `datasetId`. */
function nameOf(field: PropertyKey): string {
  return String(field).replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Returns the text, or its beginning with a mark that it was cut. */
export function cut(text: string): string {
  if (text.length <= MAX_TEXT_CHARACTERS) return text;
  return `${text.slice(0, MAX_TEXT_CHARACTERS - 1).toWellFormed()}…`;
}

/**
 * Returns the id unchanged. `field` names it in the error.
 * @throws ContractViolationError when the id is too long, or contains half a character, which no database keeps.
 */
export function whole(id: string, field: string): string {
  if (id.length > MAX_ID_CHARACTERS) {
    throw new ContractViolationError(
      `A ${field} has ${id.length} characters; at most ${MAX_ID_CHARACTERS} can be kept.`,
      field,
    );
  }
  if (!id.isWellFormed()) {
    throw new ContractViolationError(`A ${field} is not valid Unicode: ${JSON.stringify(id)}.`, field);
  }
  return id;
}

/** Ids are kept whole or refused. The feed decodes no longer ones. */
export const MAX_ID_CHARACTERS = 10_000;

/** Longer messages, hints and names are cut. */
export const MAX_TEXT_CHARACTERS = 8_000;

/** Further links of a refusal are left out. */
export const MAX_LINKS = 50;

/** The oldest sync runs are dropped. */
export const MAX_SYNC_RUNS = 10_000;

/** The oldest webhooks are dropped. */
export const MAX_WEBHOOKS = 100;

/** The oldest deliveries are dropped, and those that no service sends again after this age. */
export const MAX_DELIVERIES = 10_000;
export const MAX_DELIVERY_AGE_MS = 7 * 86_400_000;
