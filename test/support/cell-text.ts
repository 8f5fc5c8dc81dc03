/** A cell as a text that says its value exactly: two cells are the same value exactly when their texts are equal. */

import type { Cell, ColumnType, Geometry, Json, JsonValue } from '../../fixtures/source/content.ts';
import { microsecondsOfTimestamp } from '../../fixtures/source/timestamp.ts';
import { exactInteger } from '../../fixtures/source/wire.ts';
import { wkbFromGeometry } from '../../fixtures/source/wkb.ts';

/** Of what was published. */
export function textOfCell(type: ColumnType, cell: Cell): string | null {
  if (cell === null) return null;
  switch (type) {
    case 'integer':
      return String(exactInteger(cell));
    case 'number':
      return textOfNumber(cell as number);
    case 'timestamp':
      return String(microsecondsOfTimestamp(cell));
    case 'geometry':
      return Buffer.from(wkbFromGeometry(cell as Geometry))
        .toString('hex')
        .toUpperCase();
    case 'json':
      return (cell as Json).json === null ? null : textOfJson((cell as Json).json);
    default:
      return String(cell);
  }
}

/** Of the mirror, from the text that `exactText` selects: numbers and JSON have more than one spelling. */
export function textOfMirrored(type: ColumnType, text: string | null): string | null {
  if (text === null) return null;
  if (type === 'number') return textOfNumber(Number(text));
  return type === 'json' ? textOfJson(JSON.parse(text)) : text;
}

/** The sign of a zero is not compared: DuckDB does not always keep it in the file (duckdb/duckdb#25580). */
function textOfNumber(number: number): string {
  return String(number === 0 ? 0 : number);
}

/** By value: the members of objects in order of name. */
function textOfJson(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(textOfJson).join()}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const members = Object.entries(value).toSorted(([left], [right]) => (left < right ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${textOfJson(member)}`).join()}}`;
}
