/** Which columns the rows of changes carry, and whether they may: as lists of names, of which there are few. */

import { UnknownColumnsError, UnusableChangesError } from '../../../model/errors.ts';
import type { ChangesUnit } from '../../destination.ts';
import type { Row } from '../engine/engine.ts';
import { textList } from '../engine/quoting.ts';
import { numberAt, textListAt } from '../engine/rows.ts';
import type { ChangesColumns } from './columns.ts';
import { PRESENT } from './net.ts';
import { pageAt } from './pages.ts';
import { bad, placeOf } from './refusals.ts';
import type { Decoding } from './sql.ts';

/** Different lists of names that are looked at for an error. */
const MAX_NAME_LISTS = 20;

/**
 * Lists of names that are not what they must be, each with the page and the line where it is first: a name is there
 * twice, or in a row that is there afterwards one is unknown, lacking in the table, or missing. `decoded` is what comes after FROM.
 */
export function findNames(decoded: string, { known, lacking, required }: ChangesColumns): string {
  const lists = `SELECT from_json(names, '["VARCHAR"]') AS names, ${PRESENT}, place FROM (
    SELECT names, ${PRESENT}, min([page, line]) AS place FROM ${decoded} GROUP BY names, ${PRESENT})`;
  return `SELECT names, ${PRESENT}, place[1], place[2] FROM (${lists})
    WHERE len(list_distinct(names)) < len(names) OR (${PRESENT} AND (NOT list_has_all(${textList(known)}, names)
      OR list_has_any(names, ${textList(lacking)}) OR NOT list_has_all(names, ${textList(required)})))
    ORDER BY place LIMIT ${MAX_NAME_LISTS}`;
}

/** `rows` are those of `findNames`. @throws UnknownColumnsError, BadChangesError, UnusableChangesError */
export function refuseNames(unit: ChangesUnit, { pages, columns }: Decoding, rows: readonly Row[]): void {
  const known = new Set(columns.known);
  for (const row of rows) {
    const unknown = row[1] === true ? textListAt(row, 0).filter((name) => !known.has(name)) : [];
    if (unknown.length === 0) continue;
    const place = placeOf(unit, pageAt(pages, numberAt(row, 2)), numberAt(row, 3));
    throw new UnknownColumnsError(unit.datasetId, [...new Set(unknown)], place);
  }
  for (const row of rows) {
    const names = textListAt(row, 0);
    const page = pageAt(pages, numberAt(row, 2));
    const repeated = names.find((name, index) => names.indexOf(name) !== index);
    if (repeated !== undefined) {
      throw bad(unit, page, numberAt(row, 3), `the column ${JSON.stringify(repeated)} is there twice`);
    }
    throw new UnusableChangesError(unit.datasetId, page.version, whyUnusable(columns, names));
  }
}

function whyUnusable({ lacking, required }: ChangesColumns, names: readonly string[]): string {
  const carried = names.find((name) => lacking.includes(name));
  if (carried !== undefined) return `rows carry the column ${JSON.stringify(carried)}, which the table lacks`;
  const missing = required.find((name) => !names.includes(name));
  return `rows do not carry the column ${JSON.stringify(missing)} of the table`;
}
