/** The names of archived tables. Pure. */

import { integer } from '../../staging/engine/sql.ts';

/**
 * Returns `<table>__<version>_<time in UTC>`, by which the copies of a table sort; a name that is taken gets `_2`, `_3`, … Where
 * names have a limit, the name of the table is cut.
 */
export function archivedNameFor(
  tableName: string,
  version: number,
  at: Date,
  taken: ReadonlySet<string>,
  maxBytes = Number.POSITIVE_INFINITY,
): string {
  const time = at
    .toISOString()
    .replace(/\.\d+Z$/, 'z')
    .replaceAll(/[-:]/g, '')
    .toLowerCase();
  for (let number = 1; ; number += 1) {
    const ending = `__${integer(version)}_${time}${number === 1 ? '' : `_${number}`}`;
    const name = `${tableName.slice(0, maxBytes - ending.length)}${ending}`;
    if (!taken.has(name)) return name;
  }
}
