/** The tables of the past that `verify` compares, in every destination: undo logs, the tables that froze with them, archived tables. */

import type { Row } from '../staging/engine/engine.ts';
import { text, textAt, textOrNullAt } from '../staging/engine/sql.ts';
import { type Checksum, checksumOrNullAt } from './catalog/cells.ts';

export interface PastTable {
  readonly datasetId: string;
  readonly kind: 'log' | 'frozen' | 'archived';
  readonly schema: string;
  readonly name: string;
  /** The log itself, or the log that leads back from the table; null: none does. */
  readonly logName: string | null;
  /** Null where none was recorded. */
  readonly recorded: Checksum | null;
}

export interface ComparedPastTable extends PastTable {
  /** `unrecorded`: no checksum was recorded, or one of another version of the hash. */
  readonly state: 'equal' | 'altered' | 'missing' | 'damaged' | 'unrecorded';
  /** As the table is now; null where it is missing or damaged. */
  readonly checksum: Checksum | null;
  /** Why a damaged table cannot be read. */
  readonly damage: string | null;
}

export interface PastTables {
  /** Null: of all datasets. */
  readonly datasetIds: readonly string[] | null;
  /** Tables that must not be read because that ends the process: why, by their names with schema. */
  readonly endingProcess?: ReadonlyMap<string, string>;
  /** How many of them, in their order, were compared before. */
  readonly skipped: number;
}

export interface ComparedPast {
  readonly compared: readonly ComparedPastTable[];
  /** None is left. */
  readonly isEnd: boolean;
}

/** Returns the condition for the tables of these datasets; null: of all. */
export function ofDatasets(datasetIds: readonly string[] | null): string {
  return datasetIds === null ? 'TRUE' : `dataset_id IN (${[...datasetIds, ''].map(text).join(', ')})`;
}

/** Reads the cells of a table: dataset, kind, schema, name, name of the log, checksum and the version of its hash. */
export function pastTableAt(row: Row): PastTable {
  return {
    datasetId: textAt(row, 0),
    kind: kindOf(textAt(row, 1)),
    schema: textAt(row, 2),
    name: textAt(row, 3),
    logName: textOrNullAt(row, 4),
    recorded: checksumOrNullAt(row, 5),
  };
}

function kindOf(kind: string): PastTable['kind'] {
  return kind === 'frozen' || kind === 'archived' ? kind : 'log';
}

export function stateOfPast(found: Checksum, recorded: Checksum | null): 'equal' | 'altered' | 'unrecorded' {
  if (recorded?.version !== found.version) return 'unrecorded';
  return recorded.sum === found.sum ? 'equal' : 'altered';
}
