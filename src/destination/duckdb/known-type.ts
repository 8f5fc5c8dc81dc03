/** The type of a column of the service, which may have made types that are not known here. Pure. */

import { COLUMN_TYPES, type Column, type ColumnType } from '../../model/column.ts';
import { DataError } from '../../model/errors.ts';

/** @throws DataError that names the column and its type. */
export function knownType(datasetId: string, column: Column): ColumnType {
  const type = COLUMN_TYPES.find((known) => known === column.type);
  if (type !== undefined) return type;
  const stated = typeof column.type === 'string' ? column.type : column.type.unknown;
  throw new DataError(
    `The column ${JSON.stringify(column.name)} of ${datasetId} has the type ${JSON.stringify(stated)}, which this version does not know.`,
    { hint: 'A newer version of feed-sync may know it.' },
  );
}
