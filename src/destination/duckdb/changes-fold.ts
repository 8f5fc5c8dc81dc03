/** Reads the change pages of a backlog, decodes and checks every value, and folds them to their net change. */

import type { ChangesUnit } from '../destination.ts';
import type { NetChange } from './changes-net.ts';
import type { Engine } from './engine.ts';

/**
 * Folds the changes of all versions of the unit to the net change per key, in a file beside the first page.
 *
 * @throws BadChangesError where a value, a key or an operation is not what it must be, naming version, page, row and column.
 * @throws UnknownColumnsError where rows hold columns that the schema does not know.
 * @throws UnusableChangesError where the snapshot has to be loaded instead: counts that do not add up, GeoJSON for
 * a table in another coordinate system, envelope columns that rows or table lack.
 */
export async function foldChanges(engine: Engine, unit: ChangesUnit): Promise<NetChange> {
  await engine.run('SELECT 1');
  throw new Error(`The changes of ${unit.datasetId} cannot be folded yet.`);
}
