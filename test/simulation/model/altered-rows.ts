/** What somebody makes of the rows of a table by hand. */

import type { Alteration } from '../stage.ts';
import type { Table } from './mirror-state.ts';
import type { Rows } from './texts.ts';

/** Null where there is nothing to alter. */
export function alteredRows({ observed, rows }: Table, how: Alteration): Rows | null {
  const [first] = rows;
  if (first === undefined) return null;
  const [key, row] = first;
  const altered = new Map(rows);
  const copy = `${key} by hand`;
  switch (how) {
    case 'a row less':
      // Of two equal rows, one remains, whichever goes.
      altered.delete(altered.has(copy) ? copy : key);
      return altered;
    case 'a row more':
      return altered.set(copy, row);
    case 'a value': {
      const at = observed.columns.findIndex(({ role }, index) => role === 'data' && row[index] != null);
      return at < 0 ? null : altered.set(key, row.with(at, null));
    }
  }
}
