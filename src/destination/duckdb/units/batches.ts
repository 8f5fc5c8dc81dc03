/**
 * Which units go into one transaction: small ones together, because a transaction costs more than they do. Invariant:
 * no two of one dataset, because what the mirror has of it is read once for a transaction, at its begin.
 */

/** The most units of one transaction. */
export const MAX_BATCH_UNITS = 100;
/** The most rows of one transaction that holds more than one unit. */
export const MAX_BATCH_ROWS = 500_000;
/** The most bytes of files of one transaction that holds more than one unit. */
export const MAX_BATCH_BYTES = 64_000_000;

interface Sized {
  readonly rowCount: number;
  readonly bytes: number;
}

/** The units in their order, cut into runs that keep the limits. A unit above them is alone. */
export function batches<T extends Sized>(
  units: readonly T[],
  datasetIdOf: (unit: T) => string,
): readonly (readonly T[])[] {
  const result: T[][] = [];
  const datasetIds = new Set<string>();
  let rows = 0;
  let bytes = 0;
  for (const unit of units) {
    const current = result.at(-1);
    const datasetId = datasetIdOf(unit);
    rows += unit.rowCount;
    bytes += unit.bytes;
    if (
      current !== undefined &&
      current.length < MAX_BATCH_UNITS &&
      !datasetIds.has(datasetId) &&
      rows <= MAX_BATCH_ROWS &&
      bytes <= MAX_BATCH_BYTES
    ) {
      current.push(unit);
    } else {
      result.push([unit]);
      datasetIds.clear();
      rows = unit.rowCount;
      bytes = unit.bytes;
    }
    datasetIds.add(datasetId);
  }
  return result;
}
