/**
 * Keys of a snapshot that are null or there twice. That is seen in the loaded table, which does not know its files; which
 * of them has such a key is looked for once the lock is free.
 */

import { DataError } from '../../../model/errors.ts';
import type { Engine } from '../engine/engine.ts';
import { textAt } from '../engine/rows.ts';
import { findKey } from './load-sql.ts';
import type { PlannedColumn, TablePlan } from './table-plan.ts';

/** One column of a bad key, with its value as text. */
export interface KeyCell {
  readonly column: PlannedColumn;
  readonly value: string | null;
}

/** Thrown where the keys of a loaded table do not prove; stays inside this folder. */
export class BadKeysError extends Error {
  override readonly name = 'BadKeysError';
  readonly key: readonly KeyCell[];
  /** What follows in the sentence. */
  readonly rest: string;

  /** `what` is the begin of a sentence: `The key id = "a" of parcels is there 2 times`. */
  constructor(what: string, key: readonly KeyCell[], rest = '') {
    super(what);
    this.key = key;
    this.rest = rest;
  }
}

/** The error for the person. */
export async function explainBadKeys(
  engine: Engine,
  { columns, groups }: TablePlan,
  { message, key, rest }: BadKeysError,
): Promise<DataError> {
  const cells = key.map(({ column, value }) => ({ index: columns.indexOf(column), value }));
  for (const group of groups) {
    const path = await firstPath(engine, () => findKey(group, cells));
    const found = group.files.find(({ file }) => file.path === path);
    if (found !== undefined) return new DataError(`${message}, as in the file ${found.file.name}${rest}.`);
  }
  return new DataError(`${message}${rest}.`);
}

/** Null where there is none, and where a value cannot be said in SQL: the search is for the message only. */
async function firstPath(engine: Engine, select: () => string): Promise<string | null> {
  try {
    const [row] = await engine.rows(select());
    return row === undefined ? null : textAt(row, 0);
  } catch {
    if (engine.invalidated) await engine.reopen();
    return null;
  }
}
