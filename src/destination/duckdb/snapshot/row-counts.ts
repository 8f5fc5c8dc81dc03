/** What is stated of a snapshot's rows against how many there are: by the footers before it is loaded, in the table after. */

import { formatCount } from '../../../lib/units.ts';
import { DataError } from '../../../model/errors.ts';
import type { SnapshotUnit } from '../../destination.ts';
import type { ParquetFile } from './parquet-file.ts';

/**
 * A footer costs nothing, and few bytes can hold more rows than could be loaded in a day.
 * @throws DataError naming a file and both numbers.
 */
export function refuseOtherFooters(unit: SnapshotUnit, files: readonly ParquetFile[]): void {
  for (const { file, rowCount } of files) {
    if (file.rowCount === null || file.rowCount === rowCount) continue;
    const stated = formatCount(file.rowCount);
    throw new DataError(
      `The file ${file.name} of ${unit.datasetId} has ${formatCount(rowCount)} rows, but the manifest states ${stated}.`,
    );
  }
  const [largest] = files.toSorted((left, right) => right.rowCount - left.rowCount);
  const isOneOfMany = largest !== undefined && files.length > 1;
  const where = isOneOfMany ? ` Most of them are in the file ${largest.file.name}.` : '';
  refuseOtherCount(unit, rowsByFooters(files), where);
}

export function rowsByFooters(files: readonly ParquetFile[]): number {
  return files.reduce((sum, { rowCount }) => sum + rowCount, 0);
}

/** `where` is a sentence of the rows that ends the message. @throws DataError unless there are as many as each number that was given. */
export function refuseOtherCount(unit: SnapshotUnit, rowCount: number, where = ''): void {
  for (const expected of unit.expectedRowCounts) {
    if (expected.rowCount === rowCount) continue;
    throw new DataError(
      `The snapshot of ${unit.datasetId} version ${unit.version} has ${formatCount(rowCount)} rows, ` +
        `but ${expected.statedBy} states ${formatCount(expected.rowCount)}.${where}`,
    );
  }
}
