/**
 * A column of a file that is of another family of types than the schema says: nothing of it is converted. What the types
 * are called says little to a person, so one of the values is shown.
 */

import { present } from '../../../lib/assert.ts';
import { DataError } from '../../../model/errors.ts';
import type { Engine } from '../engine/engine.ts';
import { textAt } from '../engine/rows.ts';
import { findAnyValue } from './load-sql.ts';
import { unreadableFile } from './parquet-file.ts';
import type { OtherFamilyError } from './table-plan.ts';

/** The error for the person. */
export async function refuseOtherFamily(
  engine: Engine,
  datasetId: string,
  { planned: { column, type }, physicalType, place }: OtherFamilyError,
): Promise<unknown> {
  const first = present(place.files[0], 'a column of files has a file');
  try {
    const [row] = await engine.rows(findAnyValue(place, place.position));
    const found = present(row, 'a column without a value is of no family');
    const path = textAt(found, 0);
    const { file } = place.files.find((one) => one.file.path === path) ?? first;
    return new DataError(
      `The file ${file.name} of ${datasetId} holds in the column ${JSON.stringify(column.name)} ` +
        `the value ${JSON.stringify(found[1])} of type ${physicalType}, which is another family of types than ${type}.`,
    );
  } catch (error) {
    return await unreadableFile(engine, first, error);
  }
}
