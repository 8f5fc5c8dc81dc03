/** The port for `verify --deep`: compares tables with the content that the service has for them, beside the program that writes. */

import type { RowDifference } from '../model/commits.ts';
import type { ObservedTable, VersionContent } from '../model/write-jobs.ts';
import type { Checksum } from './catalog/cells.ts';

/** A comparer of tables with the service's content, which changes nothing. */
export interface Comparer {
  /**
   * Compares a table with the content. `onRead` is called with the number of rows of the table as they are read.
   * @throws DataError, UnknownColumnsError, InapplicableChangesError when the content is not usable.
   * @throws BusyError, StorageError, DestinationError
   */
  compare(
    table: ObservedTable,
    content: VersionContent,
    onRead: (rows: number) => void,
  ): Promise<ContentComparison>;
  close(): Promise<void>;
}

export type ContentComparison =
  /** `unrecorded` is the checksum of the table where the catalog has another one or none; null where it has this one. */
  | { readonly kind: 'equal'; readonly unrecorded: Checksum | null }
  /** `difference`: the rows that a repair adds, changes and removes. */
  | { readonly kind: 'different'; readonly difference: RowDifference; readonly keys: ShownKeys }
  /** The columns of the table are not those of the catalog, or the service has others for its version. */
  | { readonly kind: 'other-columns'; readonly why: string }
  /** The table cannot be read. `columnName` is null where no single column is at fault. */
  | { readonly kind: 'damaged'; readonly columnName: string | null; readonly why: string }
  /** Something was committed to the table, or it is gone. */
  | { readonly kind: 'moved' };

/** The values of a key as text, by the name of the column. */
export type ShownKey = ReadonlyMap<string, string | null>;

export interface ChangedKey {
  readonly key: ShownKey;
  /** The columns whose values differ. */
  readonly columns: readonly string[];
}

export interface ShownKeys {
  readonly added: readonly ShownKey[];
  readonly changed: readonly ChangedKey[];
  readonly removed: readonly ShownKey[];
}
