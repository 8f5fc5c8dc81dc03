/** Reads cells of the catalog that several tables have. */

import type { ReloadMark } from '../../model/desired-state.ts';
import type { DigestKind } from '../../model/write-jobs.ts';
import type { Row } from '../../staging/engine/engine.ts';
import { damagedBookkeeping } from '../../staging/engine/errors.ts';
import {
  bigintAt,
  bigintOrNullAt,
  dateOrNullAt,
  numberAt,
  textAt,
  textOrNullAt,
} from '../../staging/engine/sql.ts';

/** The sum of the hashes of the rows of a table, and the version of the hash. */
export interface Checksum {
  readonly sum: bigint;
  readonly version: string;
}

/** Compares two checksums; false also where none was recorded, or one of another version of the hash. */
export function isSameChecksum(recorded: Checksum | null, { sum, version }: Checksum): boolean {
  return recorded?.sum === sum && recorded.version === version;
}

/** Reads two cells: the sum and the version. */
export function checksumAt(row: Row, index: number): Checksum {
  return { sum: bigintAt(row, index), version: textAt(row, index + 1) };
}

/** Reads a checksum; null where none was recorded. */
export function checksumOrNullAt(row: Row, index: number): Checksum | null {
  const sum = bigintOrNullAt(row, index);
  const version = textOrNullAt(row, index + 1);
  return sum === null || version === null ? null : { sum, version };
}

/** Reads three cells: number of the event log, number of the event, time of creation. */
export function reloadMarkAt(row: Row, index: number): ReloadMark {
  return {
    logNumber: numberAt(row, index),
    eventNumber: bigintAt(row, index + 1),
    createdAt: dateOrNullAt(row, index + 2),
  };
}

export function digestKindAt(row: Row, index: number): DigestKind | null {
  const kind = textOrNullAt(row, index);
  if (kind === null || kind === 'stated' || kind === 'computed') return kind;
  throw damagedBookkeeping('a digest is neither stated nor computed');
}
